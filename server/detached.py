"""A stream without a connection, as a value and as bytes."""

import json
import struct
from typing import Any, NamedTuple

import numpy as np

from cortado.model.arrays import Samples
from cortado.model.streaming.snapshot import Snapshot, SnapshotError
from cortado.server.protocol.messages import ErrorCode, ProtocolError, Resume, Start
from cortado.server.protocol.transcript import ResumePoint, Transcript
from cortado.server.resampling import StreamResampler

VERSION = 4
_LENGTHS = struct.Struct("<BI")  # version, bytes of the facts


class DetachedStream(NamedTuple):
    """A stream without a connection."""

    point: ResumePoint
    snapshot: Snapshot
    resampler: StreamResampler

    def check(self, resume: Resume) -> None:
        """Check that the counts of a client are possible, and that what it misses is still held.

        Raises: ProtocolError if not.
        """
        self.point.check(resume)
        # Of a server that was killed it may have more than is held: each utterance has a character.
        ahead = resume.characters - self.point.transcript.characters
        most = self.snapshot.utterances + max(0, ahead + 1)
        if resume.utterances > most:
            message = f"expected at most {most} utterances, got {resume.utterances}"
            raise ProtocolError(ErrorCode.INVALID_STATE, message)

    def to_bytes(self) -> bytes:
        """Return the bytes that `from_bytes` reads, in this process or another."""
        return packed(self.point, self.snapshot, self.resampler.state())

    @classmethod
    def from_bytes(cls, data: bytes, max_characters: int) -> "DetachedStream":
        """Return the stream in the bytes of `to_bytes`, which are trusted to be such.

        Raises: SnapshotError if they are of another version.
        """
        version, length = _LENGTHS.unpack_from(data)
        if version != VERSION:
            raise SnapshotError(f"expected a stream of version {VERSION}, got {version}")
        at = _LENGTHS.size + length
        facts: dict[str, Any] = json.loads(data[_LENGTHS.size : at])
        parts = []
        for size in facts["sizes"]:
            parts.append(data[at : at + size])
            at += size
        recent = np.frombuffer(parts[0], "<f4").astype(np.float32)
        start = Start.model_validate(facts["start"])
        transcript = Transcript.restored(facts["transcript"], parts[1:], max_characters)
        point = facts["received"], transcript, facts["position"], facts["is_whole"]
        return cls(
            ResumePoint(start, *point),
            Snapshot.from_bytes(data[at:]),
            StreamResampler(start.sample_rate, recent, facts["made"]),
        )


def packed(point: ResumePoint, snapshot: Snapshot, resampler: tuple[Samples, int]) -> bytes:
    """Return the bytes of a stream, whose resampler has the state `resampler`."""
    recent, made = resampler
    about, text = point.transcript.state()
    parts = [recent.astype("<f4").tobytes(), *text]
    facts = {
        "start": point.start.model_dump(),
        "received": point.received,
        "position": point.position,
        "is_whole": point.is_whole,
        "transcript": about,
        "made": made,
        "sizes": [len(part) for part in parts],
    }
    head = json.dumps(facts).encode()
    return b"".join([_LENGTHS.pack(VERSION, len(head)), head, *parts, snapshot.to_bytes()])
