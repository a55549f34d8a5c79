"""Files to text, many at once, each in constant memory however long it is."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from itertools import chain, groupby, islice
from pathlib import Path
from typing import BinaryIO, NamedTuple, TextIO

from cortado.model.audio.decode import STDIN, AudioError, Samples, decoded, open_audio, stream
from cortado.model.backends.choice import check_language_model_used, choose, load_recognizer
from cortado.model.checkpoint_reader import read
from cortado.model.features.framing import SAMPLE_RATE, SAMPLES_PER_STEP
from cortado.model.search import language_model as language
from cortado.model.search.beam import Beam
from cortado.model.streaming.interface import BATCH, StreamingRecognizer
from cortado.model.streaming.live import listen
from cortado.model.streaming.pool import Pool
from cortado.model.streaming.update import Update
from cortado.model.streaming.vad import Vad
from cortado.model.transcript import FORMATS, Gathering, Transcript

Report = Callable[[int, int], None]  # files that are done, bytes that were read


def recognizer_of_each(
    folder: Path, backend: str = "auto", beam: Beam | None = None, lm: str | None = None
) -> Callable[[Path], StreamingRecognizer]:
    """Return what gives the recogniser, of a checkpoint's folder, that hears a file.

    It is the same for all files, unless it normalises features by statistics of the speaker: then
    a file is its own speaker, and is read once more beforehand.

    Raises:
        CheckpointError: the checkpoint is missing, broken or of another shape.
        LanguageError: the language model that is asked for is missing or broken.
        ValueError: the backend is not there, or does not know such a model.
    """
    config = read(folder).config
    if config.features.normalisation != "speaker":
        online = load_recognizer(folder, backend, beam, lm)
        return lambda path: online
    from cortado.model.adaptation import adapted  # torch, which those that stream may not need
    from cortado.model.checkpoint import load
    from cortado.model.features.speaker import statistics_of

    recognizer = load(folder)
    features = recognizer.features
    nobody = adapted(recognizer, statistics_of(features, []))
    words = language.of(folder, config.vocabulary, lm)
    chosen = choose(nobody, backend, beam, words)  # says at once what cannot be
    check_language_model_used(lm, chosen.name, chosen.beam.uses_language_model)

    def own(path: Path) -> StreamingRecognizer:
        if path == STDIN:
            raise ValueError("expected a file, which this model hears twice, got standard input")
        with closing(stream(path)) as pieces:
            statistics = statistics_of(features, [_readable(pieces)])
        return choose(adapted(recognizer, statistics), backend, beam, words)

    return own


def _readable(pieces: Iterable[Samples]) -> Iterator[Samples]:
    """Yield a file's pieces as far as it can be read; who reads it again hears of the rest."""
    with suppress(AudioError):
        yield from pieces


class Heard(NamedTuple):
    """What was heard in a file; where that is not all of it, also why."""

    number: int  # of the file, from 0 on
    path: Path
    transcript: Transcript
    error: AudioError | None


class _Source:
    """A file that is being heard."""

    def __init__(self, number: int, path: Path) -> None:
        self._number, self._path = number, path
        self._file: BinaryIO | None = None
        self.pieces = self._read()
        self._samples, self._gathering = 0, Gathering()
        self._error: AudioError | None = None
        self._ended = False

    def _read(self) -> Generator[Samples, None, None]:
        with open_audio(self._path) as self._file:
            yield from decoded(self._path, self._file)

    @property
    def position(self) -> int:
        """The bytes that were read."""
        if self._file is None or self._file.closed or not self._file.seekable():
            return 0
        return self._file.tell()

    def feed(self, pool: Pool, row: int) -> None:
        """Read until the row has a step, or nothing more comes."""
        while not self._ended and pool.waiting(row) < SAMPLES_PER_STEP:
            try:
                piece = next(self.pieces, None)
            except AudioError as error:
                piece, self._error = None, error
            if piece is None:
                self._ended = True
                pool.end(row)
            else:
                self._samples += len(piece)
                pool.push(row, piece)

    def add(self, update: Update) -> None:
        self._gathering.add(update)

    def heard(self) -> Heard:
        duration = self._samples / SAMPLE_RATE
        return Heard(self._number, self._path, self._gathering.transcript(duration), self._error)


def hear_files(
    listener: Callable[[Path], StreamingRecognizer],
    files: Sequence[Path],
    vad: Vad | None = None,
    report: Report | None = None,
) -> Iterator[Heard]:
    """Yield what is heard in files as they end, many at once, each in constant memory.

    Args:
        listener: gives the recogniser that hears a file, as `recognizer_of_each` does. Files
            beside one another that have the same are heard together.
        files: `STDIN` is standard input.
        vad: what hears the files too, and has a say in where utterances end.
        report: called with the files that are done and the bytes that were read.
    """
    jobs = ((listener(path), number, path) for number, path in enumerate(files))
    tally = _Tally(report)
    for online, group in groupby(jobs, key=lambda job: job[0]):
        sources = (_Source(number, path) for _, number, path in group)
        yield from _hear(online, sources, vad, tally)


class _Tally:
    """How far the work has come."""

    def __init__(self, report: Report | None) -> None:
        self._report, self._files, self._bytes, self._most = report, 0, 0, 0

    def count(self, sources: Iterable[_Source]) -> None:
        """Say how far it is, with those that are open."""
        if self._report:
            read = self._bytes + sum(one.position for one in sources)
            self._most = max(self._most, read)  # a reader may go back
            self._report(self._files, self._most)

    def end(self, path: Path) -> None:
        """Count a file as done."""
        self._files += 1
        self._bytes += size_of(path)


def _hear(
    online: StreamingRecognizer, sources: Iterator[_Source], vad: Vad | None, tally: _Tally
) -> Iterator[Heard]:
    first = list(islice(sources, BATCH))
    waiting = chain(first, sources)
    pool = Pool(online, len(first), threads=0, vad=vad)
    with ExitStack() as stack:
        hearing: dict[int, _Source] = {}  # by row
        stack.callback(_close, hearing)
        while True:
            while pool.free and (following := next(waiting, None)) is not None:
                hearing[pool.open()] = following
            if not hearing:
                return
            for row, source in hearing.items():
                source.feed(pool, row)
            for row, update in pool.advance():
                hearing[row].add(update)
                if update.finished:
                    pool.close(row)
                    heard = hearing.pop(row).heard()
                    tally.end(heard.path)
                    yield heard
            tally.count(hearing.values())


def _close(hearing: dict[int, _Source]) -> None:
    for source in hearing.values():
        source.pieces.close()


def size_of(path: Path) -> int:
    """Return a file's bytes, 0 where it has none to be counted."""
    with suppress(OSError, ValueError):
        return path.stat().st_size
    return 0


def transcribe_files(
    listener: Callable[[Path], StreamingRecognizer],
    files: Sequence[Path],
    form: str,
    out: TextIO,
    complain: Callable[[AudioError], None],
    vad: Vad | None = None,
    report: Report | None = None,
) -> bool:
    """Write what is heard in files to `out`; return whether every file was whole.

    The text of a single file, of which nothing is reported, is written as it is committed. Of
    several files, each is written when it and those before it are done. A file that is not whole
    gives text, and nothing in other formats.

    Args:
        listener: gives the recogniser that hears a file.
        files: in the order in which they are written.
        form: one of `FORMATS`.
        out: where it goes.
        complain: called with what is wrong with a file, in whose place the next one follows.
        vad: what hears the files too.
        report: called with the files that are done and the bytes that were read.
    """
    if form == "txt" and len(files) == 1 and report is None:
        return _stream_text(listener, files[0], out, complain, vad)
    whole = True
    for heard in _in_order(hear_files(listener, files, vad, report)):
        if heard.error is None or (form == "txt" and heard.transcript.duration):
            header = f"==> {heard.path} <==\n" if form == "txt" and len(files) > 1 else ""
            out.write(header + FORMATS[form](heard.path, heard.transcript))
            out.flush()
        if heard.error is not None:
            complain(heard.error)
            whole = False
    return whole


def _in_order(found: Iterable[Heard]) -> Iterator[Heard]:
    """Yield what is heard in the order of the files."""
    early: dict[int, Heard] = {}
    following = 0
    for heard in found:
        early[heard.number] = heard
        while following in early:
            yield early.pop(following)
            following += 1


def _stream_text(
    listener: Callable[[Path], StreamingRecognizer],
    path: Path,
    out: TextIO,
    complain: Callable[[AudioError], None],
    vad: Vad | None,
) -> bool:
    try:
        with closing(stream(path)) as pieces:
            first = next(pieces)  # a file that cannot be opened gives no line
            try:
                for update in listen(listener(path), chain([first], pieces), vad=vad):
                    if update.characters:
                        out.write("".join(one.text for one in update.characters))
                        out.flush()
            finally:
                out.write("\n")
                out.flush()
    except AudioError as error:
        complain(error)
        return False
    return True
