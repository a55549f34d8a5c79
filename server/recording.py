"""Streams as files: the audio as it came and when, and a digest of what was answered.

A recording is JSON lines: what the stream is, then a line for each frame of audio with its second
since the start and its bytes, and a last one with the digest. docs/streams.md describes it.
"""

import base64
import hashlib
import json
import logging
import os
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import IO, Any, NamedTuple

from cortado.server.protocol.messages import SAMPLE_BYTES, Start

logger = logging.getLogger(__name__)

SUFFIX = ".jsonl"
VERSION = 1


class Digest:
    """A digest of characters, their times and the ends of utterances, however they are told."""

    def __init__(self) -> None:
        self._found = hashlib.sha256()
        self.count = 0  # characters

    def characters(self, text: str, times: list[float]) -> None:
        """Take the next characters into account."""
        for character, time in zip(text, times, strict=True):
            self._found.update(f"{character}\t{time:.3f}\n".encode())
        self.count += len(text)

    def endpoint(self, start: float, end: float) -> None:
        """Take the end of an utterance into account."""
        self._found.update(f"endpoint\t{start:.3f}\t{end:.3f}\n".encode())

    @property
    def value(self) -> str:
        """The digest so far, in hexadecimal."""
        return self._found.hexdigest()


class Recorder:
    """Makes recordings in a folder, at most so many and so long."""

    def __init__(self, folder: Path, facts: dict[str, str], streams: int, seconds: float) -> None:
        """Record into `folder`; `facts` name the model and the backend.

        Raises:
            OSError: the folder is not there and cannot be made.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._facts = folder, facts
        self._streams, self._seconds = streams, seconds

    def begin(self, session: str, start: Start) -> "Recording | None":
        """Return a new recording, or None where the folder has as many as it may."""
        if sum(1 for _ in self._folder.glob("*" + SUFFIX)) >= self._streams:
            return None
        limit = int(self._seconds * start.sample_rate) * SAMPLE_BYTES[start.encoding]
        return Recording(self._folder / (session + SUFFIX), self._facts, start, limit)


class Recording:
    """One stream that is being written down."""

    def __init__(self, path: Path, facts: dict[str, str], start: Start, limit: int) -> None:
        self.path = path
        self.digest = Digest()
        self._left = limit  # bytes of audio
        self._began = monotonic()
        self._file: IO[str] | None = None
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)  # private
            self._file = os.fdopen(descriptor, "w")
        except OSError as error:
            logger.warning("recording failed", extra={"reason": str(error)})
        self._write({"version": VERSION, **facts, "start": start.model_dump()})

    def audio(self, data: bytes) -> None:
        """Write a frame of audio down; a stream that is too long is not kept."""
        self._left -= len(data)
        if self._left < 0:
            self.drop()
        else:
            at = round(monotonic() - self._began, 4)
            self._write({"at": at, "audio": base64.b64encode(data).decode()})

    def finish(self) -> None:
        """Write the digest down, and close the file."""
        self._write({"digest": self.digest.value, "characters": self.digest.count})
        if self._file:
            file, self._file = self._file, None
            with suppress(OSError):  # what is not whole is not read
                file.close()

    def drop(self) -> None:
        """Remove what was written: a stream that is not whole cannot be compared."""
        if self._file:
            file, self._file = self._file, None
            with suppress(OSError):  # of what is still to be written
                file.close()
            self.path.unlink(missing_ok=True)

    def _write(self, line: dict[str, Any]) -> None:
        if self._file:
            try:
                self._file.write(json.dumps(line) + "\n")
            except OSError as error:  # the stream goes on
                logger.warning("recording failed", extra={"reason": str(error)})
                self.drop()


class Recorded(NamedTuple):
    """A recording that was read."""

    facts: dict[str, str]  # model, backend, the digest of both, and a detector if there was one
    start: Start
    frames: list[bytes]
    times: list[float]  # (N,) seconds since the start at which the frames came
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
        times = [float(frame["at"]) for frame in frames]
        return Recorded(facts, start, audio, times, last["digest"], last["characters"])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{path}: expected a whole recording of version {VERSION}") from None
