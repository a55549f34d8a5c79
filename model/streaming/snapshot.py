"""Snapshots: a suspended stream's whole state, as bytes for any process with the same model.

They are versioned, checksummed and bound to the model; docs/streams.md describes them.
"""

import hashlib
import json
import struct
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cortado.model.arrays import Samples
from cortado.model.features.framing import SAMPLE_RATE, SAMPLES_PER_STEP
from cortado.model.streaming.endpoint import Rule, Rules
from cortado.model.streaming.utterances import CHARACTERS, COUNT

MAGIC, VERSION = b"CORTADO STREAM\n\0", 5
CHECKSUM = hashlib.sha256().digest_size
_HEADER = struct.Struct(f"<{len(MAGIC)}sHI")  # magic, version, bytes of the facts


class SnapshotError(ValueError):
    """The bytes are not a snapshot, are damaged, or are of another model."""


def digest(parts: Iterable[bytes | memoryview]) -> bytes:
    """Return a digest of 16 bytes of a model's or a detector's parts."""
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found.digest()[:16]


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A suspended stream."""

    backend: str
    model: str  # digest of backend and weights, in hexadecimal
    detector: str  # digest of the voice activity detector; empty for none
    rules: Rules  # endpoint rules
    received: int  # samples
    steps: int
    flush: int  # steps of silence that are left after the end of the input; -1 while it goes on
    endpoint: list[int]  # state of Endpointer
    utterance: list[int]  # state of Utterances
    alternatives: list[float]  # state of Alternatives
    samples: Samples  # (N,) that wait for a step
    state: bytes  # of the model
    heard: bytes  # state of the detector

    @property
    def position(self) -> float:
        """Seconds of input processed for the characters so far."""
        return min(self.steps * SAMPLES_PER_STEP, self.received) / SAMPLE_RATE

    @property
    def utterances(self) -> int:
        """Utterances of the stream that have ended."""
        return self.utterance[COUNT]

    @property
    def characters(self) -> int:
        """Characters that the stream has written."""
        return self.utterance[CHARACTERS]

    @property
    def most_alternatives(self) -> int:
        """Alternatives of a word that the stream asks for."""
        return int(self.alternatives[0]) if self.alternatives else 0

    def to_bytes(self) -> bytes:
        """Return the bytes that `from_bytes` reads, here or elsewhere."""
        parts = self.samples.astype("<f4").tobytes(), self.state, self.heard
        facts = vars(self) | {
            "rules": [rule.times for rule in self.rules],
            **dict(zip(("samples", "state", "heard"), map(len, parts), strict=True)),
        }
        text = json.dumps(facts).encode()
        whole = b"".join([_HEADER.pack(MAGIC, VERSION, len(text)), text, *parts])
        return whole + hashlib.sha256(whole).digest()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Snapshot":
        """Return the snapshot in the bytes of `to_bytes`.

        Raises:
            SnapshotError: it is not a snapshot, is damaged or of another version.
        """
        if len(data) < _HEADER.size + CHECKSUM or not data.startswith(MAGIC):
            raise SnapshotError(f"expected the snapshot of a stream, got {len(data)} other bytes")
        _, version, length = _HEADER.unpack_from(data)
        if version != VERSION:
            raise SnapshotError(
                f"expected a snapshot of version {VERSION}, got version {version}, which another"
                " release of Cortado wrote"
            )
        if hashlib.sha256(data[:-CHECKSUM]).digest() != data[-CHECKSUM:]:
            raise SnapshotError("expected a snapshot as it was taken, got a damaged one")
        at = _HEADER.size + length
        facts = json.loads(data[_HEADER.size : at])
        for name in ("samples", "state", "heard"):
            at, facts[name] = at + facts[name], data[at : at + facts[name]]
        facts["samples"] = np.frombuffer(facts["samples"], "<f4").astype(np.float32)
        facts["rules"] = tuple(Rule(*times) for times in facts["rules"])
        return cls(**facts)
