"""Files to text, many at once, each in constant memory however long it is."""

from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import closing, suppress
from itertools import chain, groupby, islice
from pathlib import Path
from threading import Event
from typing import BinaryIO, NamedTuple, TextIO

from cortado.model.arrays import Samples
from cortado.model.audio.decode import decoded, stream
from cortado.model.audio.error import STDIN, AudioError
from cortado.model.audio.opening import open_audio
from cortado.model.audio.remote import is_remote
from cortado.model.backends.choice import check_language_model_used, choose, load_recognizer
from cortado.model.checkpoint_reader import read
from cortado.model.features.framing import SAMPLES_PER_STEP
from cortado.model.search.language_file import language_of
from cortado.model.search.settings import Beam
from cortado.model.streaming.interface import BATCH, StreamingRecognizer
from cortado.model.streaming.live import listen
from cortado.model.streaming.options import DEFAULT_OPTIONS, StreamOptions
from cortado.model.streaming.pool import Pool
from cortado.model.streaming.vad import Vad
from cortado.model.transcript import FORMATS, Gathering, Transcript

Report = Callable[[int, int], None]  # finished files, bytes read
RecognizerFor = Callable[[Path], StreamingRecognizer]
FETCHES = 8  # remote files that are fetched at once; they wait for the network, not for a core


def recognizer_of_each(
    folder: Path, backend: str = "auto", beam: Beam | None = None, lm: str | None = None
) -> RecognizerFor:
    """Return a function from a file to the recogniser of a checkpoint's folder for it.

    All files have the same recogniser, unless the model normalises features by statistics of the
    speaker. Then each file is its own speaker, and is read twice.

    Raises:
        CheckpointError: the checkpoint is missing, broken or of another shape.
        LanguageError: the language model that is asked for is missing or broken.
        ValueError: the backend is not there, or does not know such a model.
    """
    config = read(folder).config
    if config.features.normalisation != "speaker":
        streaming = load_recognizer(folder, backend, beam, lm)
        return lambda path: streaming
    from cortado.model.adaptation import adapted  # needs torch, which streaming models do not
    from cortado.model.checkpoint import load
    from cortado.model.features.speaker import statistics_of

    recognizer = load(folder)
    features = recognizer.features
    without_speaker = adapted(recognizer, statistics_of(features, []))
    words = language_of(folder, config.vocabulary, lm)
    chosen = choose(without_speaker, backend, beam, words)  # reports errors before any file is read
    check_language_model_used(lm, chosen.name, chosen.beam.uses_language_model)

    def adapted_to(path: Path) -> StreamingRecognizer:
        if path == STDIN:
            raise ValueError("expected a file, which this model reads twice, got standard input")
        with closing(stream(path)) as pieces:
            statistics = statistics_of(features, [_readable(pieces)])
        return choose(adapted(recognizer, statistics), backend, beam, words)

    return adapted_to


def _readable(pieces: Iterable[Samples]) -> Iterator[Samples]:
    """Yield a file's pieces as far as it can be read; its second reading reports the error."""
    with suppress(AudioError):
        yield from pieces


class FileTranscript(NamedTuple):
    """The transcript of a file; where the file is incomplete, also the reason."""

    number: int  # of the file, from 0 on
    path: Path
    transcript: Transcript
    error: AudioError | None


class _OpenFile:
    """A file that is being transcribed."""

    def __init__(self, number: int, path: Path) -> None:
        self._number, self._path = number, path
        self._fetch: Future[BinaryIO] | None = None
        self._file: BinaryIO | None = None
        self.pieces = self._read()
        self._ended = False
        self._error: AudioError | None = None
        self.gathering = Gathering()

    def _read(self) -> Generator[Samples, None, None]:
        opened = self._fetch.result() if self._fetch else open_audio(self._path)
        with opened as self._file:
            yield from decoded(self._path, self._file)

    def begin(self, fetching: Executor, unwanted: Event) -> None:
        """Begin to fetch the file, if it lies elsewhere, until it is here or `unwanted`."""
        if is_remote(self._path):
            self._fetch = fetching.submit(open_audio, self._path, unwanted)

    def close(self) -> None:
        """Leave the file, wherever it is."""
        self.pieces.close()
        if self._fetch and self._file is None and not self._fetch.cancel():
            self._fetch.add_done_callback(_leave)

    @property
    def fetch(self) -> Future[BinaryIO] | None:
        """What fetches the file, until that is done."""
        return None if self._fetch is None or self._fetch.done() else self._fetch

    @property
    def position(self) -> int:
        """The bytes that were read."""
        if self._file is None or self._file.closed or not self._file.seekable():
            return 0
        return self._file.tell()

    def feed(self, pool: Pool, row: int) -> None:
        """Read until the row has the samples of a step, or the file ends; not before it is here."""
        while not (self._ended or self.fetch) and pool.waiting(row) < SAMPLES_PER_STEP:
            try:
                piece = next(self.pieces, None)
            except AudioError as error:
                piece, self._error = None, error
            if piece is None:
                self._ended = True
                pool.end(row)
            else:
                pool.push(row, piece)

    def result(self) -> FileTranscript:
        return FileTranscript(self._number, self._path, self.gathering.transcript(), self._error)


def _leave(fetch: Future[BinaryIO]) -> None:
    """Close a file that nobody wants any more."""
    if fetch.exception() is None:
        fetch.result().close()


def transcripts(
    recognizer_for: RecognizerFor,
    files: Iterable[Path],
    vad: Vad | None = None,
    report: Report | None = None,
    options: StreamOptions = DEFAULT_OPTIONS,
    streams: int = BATCH,
    threads: int = 0,
) -> Iterator[FileTranscript]:
    """Yield the transcripts of files as they end; many are read at once, each in constant memory.

    Args:
        recognizer_for: gives the recogniser of a file, as `recognizer_of_each` does. Consecutive
            files with the same one share a batch.
        files: `STDIN` is standard input. The next is asked for when there is room for it.
        vad: a voice activity detector that may end utterances.
        report: called with the number of finished files and of bytes read.
        options: of each file's stream.
        streams: files that are read at once.
        threads: of the model; 0 for one a core.

    Raises:
        PhrasesError: the phrases are too many, or there is no search that could weigh them.
    """
    jobs = ((recognizer_for(path), number, path) for number, path in enumerate(files))
    progress = _Progress(report)
    for recognizer, group in groupby(jobs, key=lambda job: job[0]):
        opened = (_OpenFile(number, path) for _, number, path in group)
        yield from _transcribe_batch(recognizer, opened, vad, progress, options, streams, threads)


class _Progress:
    """Counts finished files and the bytes read."""

    def __init__(self, report: Report | None) -> None:
        self._report, self._files, self._bytes, self._largest = report, 0, 0, 0

    def update(self, opened: Iterable[_OpenFile]) -> None:
        if self._report:
            read = self._bytes + sum(one.position for one in opened)
            self._largest = max(self._largest, read)  # a reader may go back
            self._report(self._files, self._largest)

    def finish(self, path: Path) -> None:
        self._files += 1
        self._bytes += size_of(path)


def _transcribe_batch(
    recognizer: StreamingRecognizer,
    files: Iterator[_OpenFile],
    vad: Vad | None,
    progress: _Progress,
    options: StreamOptions,
    streams: int,
    threads: int,
) -> Iterator[FileTranscript]:
    first = list(islice(files, streams))
    waiting = chain(first, files)
    pool = Pool(recognizer, len(first), threads=threads, vad=vad)
    open_files: dict[int, _OpenFile] = {}  # by row
    fetching, unwanted = ThreadPoolExecutor(FETCHES), Event()
    try:
        while True:
            while pool.free and (following := next(waiting, None)) is not None:
                row = pool.open(options)
                open_files[row] = following
                following.begin(fetching, unwanted)
            if not open_files:
                return
            fetches = [one for file in open_files.values() if (one := file.fetch)]
            if len(fetches) == len(open_files):
                wait(fetches, return_when=FIRST_COMPLETED)
            for row, file in open_files.items():
                file.feed(pool, row)
            for row, update in pool.advance():
                open_files[row].gathering.add(update.within_input())
                if update.finished:
                    pool.close(row)
                    result = open_files.pop(row).result()
                    progress.finish(result.path)
                    yield result
            progress.update(open_files.values())
    finally:
        unwanted.set()  # Python waits for the threads when it exits
        for file in open_files.values():
            file.close()
        fetching.shutdown(wait=False)


def size_of(path: Path) -> int:
    """Return a file's bytes, 0 if it has no known size, or its store would have to be asked."""
    if is_remote(path):
        return 0
    with suppress(OSError, ValueError):
        return path.stat().st_size
    return 0


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
