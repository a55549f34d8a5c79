"""The recording of a stream: its audio with arrival times, and a digest of what was sent."""

import base64
import hashlib
from typing import Any

from cortado.server.protocol.messages import SAMPLE_BYTES, Start

Line = dict[str, Any]  # of a recording, a JSON object; docs/streams.md describes it


class Digest:
    """A digest of characters, times and ends of utterances, in any split into messages."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.count = 0  # characters

    def characters(self, text: str, times: list[float]) -> None:
        """Add the next characters."""
        for character, time in zip(text, times, strict=True):
            self._hash.update(f"{character}\t{time:.3f}\n".encode())
        self.count += len(text)

    def endpoint(self, start: float, end: float) -> None:
        """Add the end of an utterance."""
        self._hash.update(f"endpoint\t{start:.3f}\t{end:.3f}\n".encode())

    @property
    def value(self) -> str:
        """The digest so far, in hexadecimal."""
        return self._hash.hexdigest()


class Recording:
    """The lines of one stream's recording after the first."""

    def __init__(self, start: Start, max_seconds: float, now: float) -> None:
        self.digest = Digest()
        self.whole = False  # all of it is written; one that is not is worth nothing
        self.dropped = False
        self._left = int(max_seconds * start.sample_rate) * SAMPLE_BYTES[start.encoding]
        self._began = now
        self._lines: list[Line] = []

    def audio(self, data: bytes, now: float) -> None:
        """Record a frame of audio; a stream that is too long is dropped."""
        self._left -= len(data)
        if self._left < 0:
            self.drop()
        if not self.dropped:
            at = round(now - self._began, 4)
            self._lines.append({"at": at, "audio": base64.b64encode(data).decode()})

    def finish(self) -> None:
        """Record the digest: nothing follows."""
        if not self.dropped:
            self._lines.append({"digest": self.digest.value, "characters": self.digest.count})
            self.whole = True

    def drop(self) -> None:
        """Drop the recording, unless it is complete."""
        if not self.whole:
            self.dropped = True
            self._lines.clear()

    def lines_to_write(self) -> list[Line]:
        """Return the lines that have come since the last call."""
        lines, self._lines = self._lines, []
        return lines
