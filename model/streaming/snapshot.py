"""A stream between two processes: all that goes on elsewhere, and its bytes.

They are versioned, checksummed and bound to the model; docs/streams.md describes them.
"""

import hashlib
import json
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from cortado.model.features.framing import SAMPLE_RATE, SAMPLES_PER_STEP
from cortado.model.streaming.endpoint import Rule
from cortado.model.streaming.listener import Suspended
from cortado.model.streaming.stream import Samples
from cortado.model.streaming.suspension import SnapshotError as SnapshotError

MAGIC, VERSION = b"CORTADO STREAM\n\0", 1
VAD_VERSION = 2  # of a stream that a voice activity detector hears too
CHECKSUM = hashlib.sha256().digest_size
_HEADER = struct.Struct(f"<{len(MAGIC)}sHII")  # magic, version, bytes of the facts, of the samples


@dataclass(frozen=True)
class Snapshot:
    """A suspended stream."""

    backend: str
    model: str  # digest of backend and weights, in hexadecimal
    counts: list[int | None]  # samples received; steps taken, done, and left to flush, if it ended
    samples: Samples  # (N,) that wait for a step
    listener: Suspended
    utterances: list[Any]

    @property
    def received(self) -> int:
        """Samples that the stream has received."""
        return self.counts[0] or 0

    @property
    def position(self) -> float:
        """Seconds of the input on which the characters so far rest."""
        _, _, done, _ = self.counts
        return min((done or 0) * SAMPLES_PER_STEP, self.received) / SAMPLE_RATE

    @property
    def characters(self) -> int:
        """Characters that the stream has written."""
        return int(self.utterances[1])

    def to_bytes(self) -> bytes:
        """Return the bytes that `from_bytes` reads, here or elsewhere."""
        facts: dict[str, Any] = {
            "backend": self.backend,
            "model": self.model,
            "rules": [list(rule.times) for rule in self.listener.rules],
            "stream": self.counts,
            "endpoint": self.listener.endpoint,
            "utterances": self.utterances,
        }
        vad = self.listener.vad
        if vad:
            facts["vad"] = len(vad)
        text, heard = json.dumps(facts).encode(), self.samples.astype("<f4").tobytes()
        version = VAD_VERSION if vad else VERSION
        header = _HEADER.pack(MAGIC, version, len(text), len(heard))
        whole = header + text + heard + self.listener.state + vad
        return whole + hashlib.sha256(whole).digest()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Snapshot":
        """Return the snapshot in the bytes of `to_bytes`.

        Raises:
            SnapshotError: it is none, damaged or of another version.
        """
        facts, samples, state = _opened(data)
        rules = tuple(Rule(*times) for times in facts["rules"])
        end = len(state) - facts.get("vad", 0)
        listener = Suspended(state[:end], facts["endpoint"], rules, state[end:])
        facts_of_stream = facts["stream"], samples, listener, facts["utterances"]
        return cls(facts["backend"], facts["model"], *facts_of_stream)

    def check(self, backend: str, model: bytes) -> None:
        """Look whether the snapshot is of a backend and of a model's digest.

        Raises:
            SnapshotError: it is not.
        """
        for name, own, found in (
            ("backend", backend, self.backend),
            ("model", model.hex(), self.model),
        ):
            if found != own:
                raise SnapshotError(f"expected a stream of the {name} {own}, got {found}")


def _opened(data: bytes) -> tuple[dict[str, Any], Samples, bytes]:
    """Return the facts, the samples and the states in the bytes of a suspended stream.

    Raises:
        SnapshotError: they are none, damaged or of another version.
    """
    if len(data) < _HEADER.size + CHECKSUM or not data.startswith(MAGIC):
        raise SnapshotError(f"expected a suspended stream, got {len(data)} other bytes")
    _, version, text, heard = _HEADER.unpack_from(data)
    if version not in (VERSION, VAD_VERSION):
        raise SnapshotError(
            f"expected a stream of version {VERSION} or {VAD_VERSION}, got version {version}"
        )
    if hashlib.sha256(data[:-CHECKSUM]).digest() != data[-CHECKSUM:]:
        raise SnapshotError("expected a stream as it was suspended, got a damaged one")
    begin = _HEADER.size + text
    facts = json.loads(data[_HEADER.size : begin])
    samples = np.frombuffer(data[begin : begin + heard], "<f4").astype(np.float32)
    return facts, samples, data[begin + heard : -CHECKSUM]
