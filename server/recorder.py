"""Streams as files: JSON lines with the audio and a digest. docs/streams.md describes them."""

import base64
import json
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import BoundedSemaphore, Event, Thread
from typing import IO, NamedTuple

from prometheus_client import Counter

from cortado.server.protocol.messages import Start
from cortado.server.protocol.recording import Line, Recording

logger = logging.getLogger(__name__)

SUFFIX = ".jsonl"
VERSION = 1
QUOTED = 60  # bytes of a file that is no recording
MAX_BEHIND = 256  # updates of a stream that wait for the disk: 5 s of frames of 20 ms


class Writer:
    """A thread that does, in order, what may wait for a disk. If it hangs it delays nobody."""

    def __init__(self, files: int) -> None:
        """Start the thread, which ends with the process; `files` at most may be open at once."""
        self.files = files
        self.room = BoundedSemaphore(files)  # for files, counted before the disk has them
        self._jobs = SimpleQueue[Callable[[], object]]()
        Thread(target=self._work, name="recorder", daemon=True).start()

    def do(self, job: Callable[[], object]) -> None:
        """Have a job done after those before it."""
        self._jobs.put(job)

    def wait(self, seconds: float) -> bool:
        """Wait until all jobs so far are done; return whether they are after so many seconds."""
        done = Event()
        self.do(done.set)
        return done.wait(seconds)

    def _work(self) -> None:
        while True:
            try:
                self._jobs.get()()
            except Exception:  # a fault of ours ends one recording, not all
                logger.exception("recording failed")


class Recorder:
    """Makes files in a folder, at most as many as its writer may have open."""

    def __init__(
        self,
        folder: Path,
        facts: dict[str, str],
        failures: Counter,
        writer: Writer,
    ) -> None:
        """Record into `folder`; `facts` name the model and the backend; failures are counted.

        Raises: ValueError if the folder is not there and cannot be made.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = f"got {folder}: {error.strerror}"
            raise ValueError(f"expected a folder to record streams in, {reason}") from error
        self._folder, self._facts = folder, facts
        self._failures, self._writer = failures, writer

    def open(self, session: str, start: Start) -> "RecordingFile | None":
        """Return a new file; it writes nothing once the folder has as many as it may.

        None while as many are open, as on a disk that hangs.
        """
        if not self._writer.room.acquire(blocking=False):
            return None
        first = {"version": VERSION, **self._facts, "start": start.model_dump()}
        path = self._folder / (session + SUFFIX)
        return RecordingFile(path, first, self._failures, self._writer)


class RecordingFile:
    """The file of one stream that is being recorded; faults of it harm no stream."""

    def __init__(self, path: Path, first: Line, failures: Counter, writer: Writer) -> None:
        """Have the file begun with its first line, unless its folder has too many."""
        self._path, self._failures, self._writer = path, failures, writer
        self._behind, self._over = BoundedSemaphore(MAX_BEHIND), False
        self._is_one_too_many = False
        self._file: IO[str] | None = None
        writer.do(partial(self._begin, first))

    def update(self, recording: Recording) -> None:
        """Have the lines that have come written; the file is closed once it is whole, or removed.

        A recording that its disk does not keep up with is given up.
        """
        if self._is_one_too_many:
            recording.drop()
        lines = recording.lines_to_write()
        if self._over:
            return
        if lines and not recording.whole and not self._behind.acquire(blocking=False):
            recording.drop()
            self._failed(TimeoutError("the disk is too slow"))
        self._over = recording.whole or recording.dropped
        if self._over:
            self._writer.do(partial(self._end, lines, recording.whole))
            self._writer.do(self._writer.room.release)  # whatever goes wrong in the end
        elif lines:
            self._writer.do(partial(self._go_on, lines))

    def _begin(self, first: Line) -> None:
        try:
            kept = sum(1 for _ in self._path.parent.glob("*" + SUFFIX))
            self._is_one_too_many = kept >= self._writer.files
            if self._is_one_too_many:
                return
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)  # private
            self._file = os.fdopen(descriptor, "w", buffering=1)  # a full disk is felt at its line
        except OSError as error:
            self._failed(error)
        self._write([first])

    def _go_on(self, lines: list[Line]) -> None:
        self._write(lines)
        self._behind.release()

    def _end(self, lines: list[Line], whole: bool) -> None:
        if whole:
            self._write(lines)
        self._close(keep=whole)

    def _write(self, lines: list[Line]) -> None:
        try:
            for line in lines:
                if self._file:
                    self._file.write(json.dumps(line) + "\n")
        except OSError as error:
            self._failed(error)
            self._close(keep=False)

    def _failed(self, error: OSError) -> None:
        reason = error.strerror or str(error)  # without the path, which not every error has
        logger.warning("recording failed", extra={"path": str(self._path), "reason": reason})
        self._failures.inc()

    def _close(self, *, keep: bool) -> None:
        if not self._file:
            return
        file, self._file = self._file, None
        with suppress(OSError):  # what is not whole is not read
            file.close()
        if not keep:
            self._path.unlink(missing_ok=True)


class Recorded(NamedTuple):
    """A recording that was read."""

    facts: dict[str, str]  # model, backend, the digest of both, and a detector if there was one
    start: Start
    frames: list[bytes]
    digest: str
    characters: int


def read(path: Path) -> Recorded:
    """Return the recording in a file.

    Raises:
        OSError: there is no such file.
        ValueError: it is no recording, or not a whole one.
    """
    try:
        first, *frames, last = map(json.loads, path.read_text("utf-8").splitlines())
        start = Start.model_validate(first.pop("start"))
        if first.pop("version") != VERSION:
            raise ValueError
        facts = {name: str(first[name]) for name in ("model", "backend", "digest")}
        facts |= {"vad": str(first["vad"])} if "vad" in first else {}
        audio = [base64.b64decode(frame["audio"]) for frame in frames]
        return Recorded(facts, start, audio, last["digest"], last["characters"])
    except (ValueError, KeyError, TypeError, AttributeError):
        with path.open("rb") as file:
            begins = file.readline(QUOTED).decode("utf-8", "replace")
        raise ValueError(
            f"{path}: expected a whole recording of version {VERSION}, "
            f"got a file that begins with {begins!r}"
        ) from None
