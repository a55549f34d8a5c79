"""`cortado transcribe`: the text of audio files."""

import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cortado.clients.commands.failures import EXIT_USER_ERROR, complain
from cortado.clients.commands.terminal import (
    Backend,
    Checkpoint,
    Hold,
    Lm,
    Width,
    check_places,
    examples,
    use_one_thread,
)

if TYPE_CHECKING:
    from cortado.clients.results import Input
    from cortado.model.files import RecognizerFor, Report
    from cortado.model.streaming.vad import Vad

EXAMPLES = examples(
    "cortado transcribe talk.mp3",
    "cortado transcribe talk.mp4 --output talk.srt",
    "cortado transcribe archive --format vtt --output captions",
    "cortado transcribe --json *.wav > out.jsonl",
    'cortado transcribe talk.wav --phrase "Ada Lovelace" --phrase Guasimas',
    "cat talk.wav | cortado transcribe -",
)


class Format(StrEnum):
    """How a transcript is written."""

    TXT = "txt"
    SRT = "srt"
    VTT = "vtt"
    JSON = "json"
    CTM = "ctm"


CAPTIONS = (Format.SRT, Format.VTT)  # of one file each


def transcribe(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Audio or video files of any common kind, folders of them, or - for standard"
            " input.",
            show_default=False,
        ),
    ],
    form: Annotated[
        Format | None,
        typer.Option(
            "--format",
            help="Text, captions (srt, vtt), everything (json), or the times of words (ctm); the"
            " output's ending or txt if not set.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE|FOLDER",
            help="Where it goes: a file that ends as a format does, or a folder, in which each file"
            " has its own and those that are there already are passed over.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a file, with each character's time.")
    ] = False,
    vad: Annotated[
        bool,
        typer.Option(
            "--vad",
            help="Let a voice activity detector find the ends of utterances;"
            " needs the extra cortado-asr[vad].",
        ),
    ] = False,
    phrase: Annotated[
        list[str] | None,
        typer.Option(
            "--phrase",
            help="What is likely to be said, such as a name; may be given up to 100 times.",
            show_default=False,
        ),
    ] = None,
    backend: Backend = "auto",
    beam: Width = None,
    hold: Hold = None,
    lm: Lm = None,
    checkpoint: Checkpoint = None,
) -> None:
    """Print the text of audio files as it is decided."""
    from cortado.clients.results import inputs
    from cortado.model.checkpoint_reader import DEFAULT
    from cortado.model.files import recognizer_of_each
    from cortado.model.search.settings import beam_from_options
    from cortado.model.streaming.vad import load_vad
    from cortado.training.data.corpora.source import AUDIO_SUFFIXES

    if as_json and form is not None:
        raise ValueError(f"expected --json or --format, got both: --json and --format {form}")
    sources = inputs(files, AUDIO_SUFFIXES)
    folder = output if output is not None and _is_folder(output) else None
    chosen = form or _ending(output) or Format.TXT
    name = "jsonl" if as_json else chosen.value
    if folder is None and chosen in CAPTIONS and len(sources) > 1:
        raise ValueError(f"expected --output FOLDER for {chosen} of {len(sources)} files")
    if folder is None:
        check_places(output)
    use_one_thread()
    detector = load_vad() if vad else None
    recognizer_for = recognizer_of_each(
        checkpoint or DEFAULT, backend, beam_from_options(beam, hold, lm), lm
    )
    if folder is not None:
        complete = _into_folder(recognizer_for, sources, name, folder, detector, phrase or ())
    else:
        paths = [one.path for one in sources]
        complete = _into_one(recognizer_for, paths, name, output, detector, phrase or ())
    if not complete:
        raise typer.Exit(EXIT_USER_ERROR)


def _ending(output: Path | None) -> Format | None:
    """Return the format that a file's name says."""
    ending = output.suffix[1:].lower() if output else ""
    if ending == "jsonl":
        return Format.JSON
    return Format(ending) if ending in list(Format) else None


def _is_folder(output: Path) -> bool:
    return output.is_dir() or (_ending(output) is None and not output.is_file())


def _into_one(
    recognizer_for: "RecognizerFor",
    files: Sequence[Path],
    form: str,
    output: Path | None,
    vad: "Vad | None",
    phrases: Sequence[str],
) -> bool:
    """Write the transcripts of files one after another; return whether all files were complete."""
    from cortado.clients.results import write_whole
    from cortado.model.files import write_transcripts

    write = partial(
        write_transcripts,
        recognizer_for,
        files,
        form,
        on_error=complain,
        vad=vad,
        phrases=phrases,
    )
    streams = form == "txt" and len(files) == 1
    if output is None and (streams or sys.stdout.isatty()):  # a bar would stand in the text
        return write(out=sys.stdout)
    out = sys.stdout if output is None else io.StringIO()  # not the one that a bar puts in between
    with _progress(files) as report:
        complete = write(out=out, report=report)
    if output is not None and isinstance(out, io.StringIO) and (complete or len(files) > 1):
        write_whole(output, out.getvalue())
    return complete


def _into_folder(
    recognizer_for: "RecognizerFor",
    sources: "Sequence[Input]",
    form: str,
    folder: Path,
    vad: "Vad | None",
    phrases: Sequence[str],
) -> bool:
    """Write each file's transcript as it ends; return whether all files were complete."""
    from cortado.clients.results import is_done, places, write_whole
    from cortado.model.files import transcripts
    from cortado.model.transcript import FORMATS

    pairs = zip(sources, places(sources, folder, form.removesuffix("l")), strict=True)
    left = [(one.path, place) for one, place in pairs if not is_done(one.path, place)]
    files = [path for path, _ in left]
    complete = True
    with _progress(files) as report:
        for number, path, transcript, error in transcripts(
            recognizer_for, files, vad, report, phrases
        ):
            if error is None:
                write_whole(left[number][1], FORMATS[form](path, transcript))
            else:
                complain(error)
                complete = False
    return complete


@contextmanager
def _progress(files: Sequence[Path]) -> "Iterator[Report]":
    """Show a bar on stderr, where that is a terminal; yield what moves it."""
    from cortado.clients.progress import progress_bar
    from cortado.model.files import size_of

    size = sum(map(size_of, files))
    with progress_bar(share=True) as show:
        yield lambda done, read: show(f"{done} of {len(files)} files", read, size)
