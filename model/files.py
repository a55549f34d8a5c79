"""Files to text, many at once, each in constant memory however long it is."""

from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from itertools import chain, groupby, islice
from pathlib import Path
from threading import Event
from typing import BinaryIO, NamedTuple

from cortado.model.arrays import Samples
from cortado.model.audio.decode import decoded
from cortado.model.audio.error import AudioError
from cortado.model.audio.opening import open_audio
from cortado.model.audio.remote import is_remote
from cortado.model.features.framing import SAMPLES_PER_STEP
from cortado.model.loading import RecognizerFor
from cortado.model.streaming.interface import BATCH, StreamingRecognizer
from cortado.model.streaming.options import DEFAULT_OPTIONS, StreamOptions
from cortado.model.streaming.pool import Pool
from cortado.model.streaming.vad import Vad
from cortado.model.transcript import Gathering, Transcript

Report = Callable[[int, int], None]  # finished files, bytes read
FETCHES = 8  # remote files that are fetched at once; they wait for the network, not for a core


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
        recognizer_for: gives the recogniser of a file, as `recognizer_of_each` returns it.
            Consecutive files with the same one share a batch.
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
