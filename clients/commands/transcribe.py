"""`cortado transcribe`: the text of audio files."""

import io
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cortado.clients.commands.failures import EXIT_USER_ERROR, complain
from cortado.clients.commands.terminal import (
    ENDINGS,
    Backend,
    Checkpoint,
    Format,
    Hold,
    Lm,
    Phrases,
    Width,
    check_folder,
    check_places,
    ending,
    examples,
    use_one_thread,
)

if TYPE_CHECKING:
    from cortado.clients.results import Input
    from cortado.model.files import FileTranscript, Report
    from cortado.model.loading import Loading
    from cortado.model.streaming.options import StreamOptions

    Transcribe = Callable[..., Iterator[FileTranscript]]  # of files, with a report

EXAMPLES = examples(
    "cortado transcribe talk.mp3",
    "cortado transcribe talk.mp4 --output talk.srt",
    "cortado transcribe archive --format vtt --output captions",
    "cortado transcribe archive --workers 8 --format vtt --output captions",
    "cortado transcribe --ray s3://bucket/archive --format json --output results",
    "cortado transcribe --json *.wav > out.jsonl",
    'cortado transcribe talk.wav --phrase "Ada Lovelace" --phrase Guasimas',
    "cat talk.wav | cortado transcribe -",
)


CAPTIONS = ("srt", "vtt")  # of one file each


def transcribe(
    files: Annotated[
        list[str],
        typer.Argument(
            help="Audio or video files of any common kind, folders of them, manifests (.jsonl),"
            " lists (.txt), addresses of them such as s3://bucket/folder, or - for standard"
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
    phrase: Phrases = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1024,
            help="Processes that share the files, each with a model of its own; 1, and with --ray"
            " one for each core of the cluster.",
        ),
    ] = None,
    ray: Annotated[
        bool,
        typer.Option(
            "--ray",
            help="Let the processes run in a Ray cluster; needs the extra cortado-asr[ray].",
        ),
    ] = False,
    address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Address of the cluster's head; with --ray alone, this machine.",
        ),
    ] = None,
    alternatives: Annotated[
        int,
        typer.Option(
            min=0,
            max=10,
            help="With --format json: how many other words each word in doubt has at most.",
        ),
    ] = 0,
    backend: Backend = "auto",
    beam: Width = None,
    hold: Hold = None,
    lm: Lm = None,
    checkpoint: Checkpoint = None,
) -> None:
    """Print the text of audio files as it is decided."""
    from cortado.clients.results import inputs
    from cortado.model.audio.error import STDIN
    from cortado.model.checkpoint_reader import DEFAULT
    from cortado.model.loading import Loading
    from cortado.model.search.settings import beam_from_options
    from cortado.model.streaming.options import StreamOptions
    from cortado.training.data.corpora.source import AUDIO_SUFFIXES

    if as_json and form is not None:
        raise ValueError(f"expected --json or --format, got both: --json and --format {form}")
    sources = inputs(files, AUDIO_SUFFIXES)
    paths = [one.path for one in sources]
    if address is not None and not ray:
        raise ValueError(f"expected --address with --ray, got --address {address} alone")
    if (ray or (workers or 1) > 1) and STDIN in paths:
        how = "--ray" if ray else f"--workers {workers}"
        raise ValueError(f"expected files for {how}, got standard input")
    folder = output if output is not None and _is_folder(output) else None
    named = None if folder else ending(output)
    if form and named and form != named:
        raise ValueError(f"expected an --output that ends in .{form}, got {output}")
    chosen = form or named or "txt"
    written = "jsonl" if as_json else chosen
    if as_json and chosen not in ("txt", "json"):
        raise ValueError(f"expected --json into a file that ends in .jsonl, got {output}")
    if alternatives and written != "json":
        got = "--json" if as_json else chosen
        raise ValueError(f"expected --alternatives with --format json, got it with {got}")
    if folder is None and chosen in CAPTIONS and len(sources) > 1:
        expected = f"expected --output FOLDER for {chosen} of {len(sources)} files"
        raise ValueError(f"{expected}, got {output or 'none'}")
    if folder is None and chosen == "ctm":
        _check_recordings(paths)
    if folder is None:
        check_places(output, given=[*files, *map(str, paths)])
    elif folder.suffix and len(sources) == 1 and not folder.is_dir():
        expected = f"expected a file that ends in {', '.join(ENDINGS)}"
        also = "or a folder, which has to exist if its name has a dot"
        raise ValueError(f"{expected}, {also}, got {folder}")
    check_folder(folder)
    use_one_thread()
    search = beam_from_options(beam, hold, lm)
    loading = Loading(checkpoint or DEFAULT, backend, search, lm, vad)
    options = StreamOptions(phrase or (), alternatives)
    if output is None and written == "txt" and len(paths) == 1 and not ray:
        complete = _as_it_is_said(loading, paths[0], options)
    else:
        by = _transcriber(loading, workers, ray, address, options)
        if folder is None:
            complete = _into_one(by, paths, written, output)
        else:
            complete = _into_folder(by, sources, written, folder)
    if not complete:
        raise typer.Exit(EXIT_USER_ERROR)


def _check_recordings(paths: Sequence[Path]) -> None:
    """Look whether each of the recordings that one ctm has would have a name of its own.

    Raises: ValueError where two would have the same.
    """
    from cortado.model.transcript import recording_name

    known: dict[str, Path] = {}
    for path in paths:
        name = recording_name(path)
        if name in known:
            expected = "expected recordings of different names in one ctm, or --output FOLDER"
            raise ValueError(f"{expected}, got {known[name]} and {path}")
        known[name] = path


def _as_it_is_said(loading: "Loading", path: Path, options: "StreamOptions") -> bool:
    """Print the text of one file as it is committed; return whether the file was complete."""
    from cortado.model.writing import write_text

    recognizer_for, vad = loading.load()
    return write_text(recognizer_for, path, sys.stdout, complain, vad, options)


def _transcriber(
    loading: "Loading",
    workers: int | None,
    ray: bool,
    address: str | None,
    options: "StreamOptions",
) -> "Transcribe":
    """Return what transcribes files: this process, several, or those of a cluster."""
    from cortado.model.files import transcripts
    from cortado.model.workers import transcripts_by

    if ray:
        from cortado.clients.commands.cluster import join
        from cortado.model.ray_processes import CLUSTER, cores

        join(address)
        return partial(transcripts_by, workers or cores(), loading, place=CLUSTER, options=options)
    if workers and workers > 1:
        return partial(transcripts_by, workers, loading, options=options)
    recognizer_for, vad = loading.load()
    return partial(transcripts, recognizer_for, vad=vad, options=options)


def _is_folder(output: Path) -> bool:
    from cortado.training.data.corpora.source import AUDIO_SUFFIXES

    is_sound = output.suffix.lower() in AUDIO_SUFFIXES  # which no text replaces
    return output.is_dir() or (ending(output) is None and (is_sound or not output.exists()))


def _into_one(
    transcribe: "Transcribe", files: Sequence[Path], form: str, output: Path | None
) -> bool:
    """Write the transcripts of files one after another; return whether all files were complete."""
    from cortado.model.whole_file import write_whole
    from cortado.model.writing import write_results

    out = sys.stdout if output is None else io.StringIO()  # not the one that a bar puts in between
    # A bar would stand in the text.
    bar = nullcontext() if output is None and sys.stdout.isatty() else _progress(files)
    with bar as report:
        found = transcribe(files, report=report)
        complete = write_results(found, len(files), form, out, complain)
    if output is not None and isinstance(out, io.StringIO) and (complete or len(files) > 1):
        write_whole(output, out.getvalue())
    return complete


def _into_folder(
    transcribe: "Transcribe", sources: "Sequence[Input]", form: str, folder: Path
) -> bool:
    """Write each file's transcript as it ends; return whether all files were complete."""
    from cortado.clients.results import is_done, places
    from cortado.model.transcript import FORMATS
    from cortado.model.whole_file import write_whole

    pairs = zip(sources, places(sources, folder, form.removesuffix("l")), strict=True)
    left = [(one.path, place) for one, place in pairs if not is_done(one.path, place)]
    files = [path for path, _ in left]
    complete = True
    with _progress(files) as report:
        for number, path, transcript, error in transcribe(files, report=report):
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
    from cortado.model.audio.remote import is_remote
    from cortado.model.files import size_of

    # Of files that lie elsewhere, nobody knows how long they are.
    size = 0 if any(map(is_remote, files)) else sum(map(size_of, files))
    with progress_bar(share=True) as show:

        def report(done: int, read: int) -> None:
            share = (read, size) if size else (done, len(files))
            show(f"{done} of {len(files)} files", *share)

        yield report
