"""Files to text in several processes: each file once, even where one takes its process with it.

Each process has a model of its own and asks for one file after another, so that none waits for
another. Where a process dies, the files that it had open are suspects: each is heard again in a
process in which no other is open. The one that ends that process, too, is given up.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

from cortado.model.audio.error import AudioError
from cortado.model.files import FileTranscript, Report, size_of, transcripts
from cortado.model.loading import Loading
from cortado.model.processes import HERE, Line, Place, Process
from cortado.model.search.phrases import PhrasesError
from cortado.model.streaming.interface import BATCH
from cortado.model.streaming.options import DEFAULT_OPTIONS, StreamOptions
from cortado.model.transcript import Transcript

Job = tuple[int, Path]  # a file and its number


class _Worker:
    """A process, and the files that it has open."""

    def __init__(self, process: Process, source: deque[Job], alone: bool) -> None:
        """Give a process files of `source`, each of them `alone` or several at once."""
        self.process, self._source = process, source
        self.alone, self.began = alone, False
        self.open: dict[int, Path] = {}

    def give(self) -> None:
        """Answer a question for a file: with the next, or None if there is none."""
        self.began = True
        job = self._source.popleft() if self._source else None
        if job is not None:
            self.open[job[0]] = job[1]
        self.process.send(job)


class _Crew:
    """Processes that share the files among them."""

    def __init__(
        self, workers: int, files: Sequence[Path], work: Callable[..., None], place: Place
    ) -> None:
        self._workers, self._work, self._place = min(workers, len(files)), work, place
        self._rows = min(BATCH, ceil(len(files) / workers))  # the first leaves some for the others
        self._waiting, self._suspects = deque(enumerate(files)), deque[Job]()
        self._running: dict[Any, _Worker] = {}  # by their lines
        self._left = len(files)

    def results(self) -> Iterator[FileTranscript]:
        """Yield the transcript of each file, as they end."""
        try:
            while self._left:
                self._fill()
                for line in self._place.wait(list(self._running)):
                    for result in self._hear(self._running[line]):
                        self._left -= 1
                        yield result
        finally:
            for worker in self._running.values():
                worker.process.stop()

    def _fill(self) -> None:
        """Start processes where there are files for them."""
        while len(self._running) < self._workers and (self._suspects or self._waiting):
            alone = bool(self._suspects)
            work = partial(self._work, streams=1 if alone else self._rows)
            process = self._place.start(work)
            source = self._suspects if alone else self._waiting
            self._running[process.line] = _Worker(process, source, alone)

    def _hear(self, worker: _Worker) -> Iterator[FileTranscript]:
        """Read a message: a question for a file, a transcript, or why it cannot work."""
        try:
            message = worker.process.receive()
        except EOFError:
            yield from self._bury(worker)
            return
        if message is None:
            worker.give()
        elif isinstance(message, Exception):
            raise message
        else:
            del worker.open[message.number]
            yield message

    def _bury(self, worker: _Worker) -> Iterator[FileTranscript]:
        """Suspect the files of a process that has ended; give up one that it had open alone."""
        del self._running[worker.process.line]
        end = worker.process.end()
        if not worker.began:
            raise OSError(f"expected a process that transcribes, got {end}")
        if not worker.alone:
            self._suspects.extend(worker.open.items())
            return
        for number, path in worker.open.items():
            error = AudioError(path, "sound that can be transcribed", end)
            yield FileTranscript(number, path, Transcript((), 0.0), error)


def transcripts_by(
    workers: int,
    loading: Loading,
    files: Sequence[Path],
    report: Report | None = None,
    options: StreamOptions = DEFAULT_OPTIONS,
    place: Place = HERE,
) -> Iterator[FileTranscript]:
    """Yield the transcripts of files as they end, heard by so many processes; each file once.

    Args:
        workers: processes; each keeps one core busy.
        loading: what each of them loads.
        files: on the disk, not standard input.
        report: called with the number of finished files and of their bytes.
        options: of each file's stream.
        place: where the processes run.

    Raises:
        ValueError: what is asked for cannot be loaded, or the phrases are too many.
        OSError: a process ends before it has a file.
    """
    done, read = 0, 0
    work = partial(_work, loading, options)
    for result in _Crew(workers, files, work, place).results():
        yield result
        done, read = done + 1, read + size_of(result.path)
        if report:
            report(done, read)


def _work(loading: Loading, options: StreamOptions, parent: Line, *, streams: int) -> None:
    """Transcribe the files that a parent process gives, so many at once."""
    numbers = list[int]()

    def files() -> Iterator[Path]:
        while True:
            parent.send(None)
            job: Job | None = parent.recv()
            if job is None:
                return
            numbers.append(job[0])
            yield job[1]

    with suppress(EOFError, ConnectionError):  # the parent has ended
        try:
            recognizer_for, vad = loading.load()
        except ModuleNotFoundError as error:
            return parent.send(error)
        except (ValueError, OSError) as error:
            return parent.send(ValueError(str(error)))  # whose own class may not be sent
        try:
            for one in transcripts(recognizer_for, files(), vad, None, options, streams, threads=1):
                parent.send(one._replace(number=numbers[one.number]))
        except PhrasesError as error:
            parent.send(error)
