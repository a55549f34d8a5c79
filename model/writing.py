"""Transcripts of files written, in the order of the files, or as they are heard."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import TextIO

from cortado.model.arrays import Samples
from cortado.model.audio.decode import stream
from cortado.model.audio.error import AudioError
from cortado.model.files import FileTranscript
from cortado.model.loading import RecognizerFor
from cortado.model.streaming.live import listen
from cortado.model.streaming.options import DEFAULT_OPTIONS, StreamOptions
from cortado.model.streaming.vad import Vad
from cortado.model.transcript import FORMATS


def write_results(
    found: Iterable[FileTranscript],
    files: int,
    form: str,
    out: TextIO,
    on_error: Callable[[AudioError], None],
) -> bool:
    """Write the transcripts of so many files; return whether every file was complete.

    Each is written when it and those before it are done. An incomplete one is written as text only,
    and `on_error` is called with its error.

    Args:
        found: the transcripts, in any order.
        files: how many there are; several texts have headers.
        form: one of `FORMATS`.
        out: the output.
        on_error: called with a file's error; the next files follow.
    """
    complete = True
    for _, path, transcript, error in _in_order(found):
        if error is None or (form == "txt" and transcript.duration):
            header = f"==> {path} <==\n" if form == "txt" and files > 1 else ""
            out.write(header + FORMATS[form](path, transcript))
            out.flush()
        if error is not None:
            on_error(error)
            complete = False
    return complete


def _in_order(results: Iterable[FileTranscript]) -> Iterator[FileTranscript]:
    """Yield results in the order of the files."""
    early: dict[int, FileTranscript] = {}
    following = 0
    for result in results:
        early[result.number] = result
        while following in early:
            yield early.pop(following)
            following += 1


def write_text(
    recognizer_for: RecognizerFor,
    path: Path,
    out: TextIO,
    on_error: Callable[[AudioError], None],
    vad: Vad | None = None,
    options: StreamOptions = DEFAULT_OPTIONS,
) -> bool:
    """Write the text of a file as it is committed; return whether the file was complete.

    Args:
        recognizer_for: gives the recogniser of a file.
        path: of the file.
        out: the output.
        on_error: called with the file's error.
        vad: a voice activity detector that may end utterances.
        options: of its stream.

    Raises:
        PhrasesError: the phrases are too many, or there is no search that could weigh them.
    """
    errors = list[AudioError]()

    def readable(pieces: Iterator[Samples]) -> Iterator[Samples]:
        """Yield what comes before an error: then the stream ends, and all of it is written."""
        try:
            yield from pieces
        except AudioError as error:
            errors.append(error)

    try:
        with closing(stream(path)) as pieces:
            audio = chain([next(pieces)], readable(pieces))
            updates = listen(recognizer_for(path), audio, vad=vad, options=options)
            try:  # a file or phrases that cannot be taken have given no line
                for update in updates:
                    if update.characters:
                        out.write("".join(one.text for one in update.characters))
                        out.flush()
            finally:
                out.write("\n")
                out.flush()
    except AudioError as error:
        errors.append(error)
    for one in errors:
        on_error(one)
    return not errors
