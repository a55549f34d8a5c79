"""A stream between two processes: all that goes on elsewhere, and its bytes.

They are versioned, checksummed and bound to the model; docs/streams.md describes them.
"""

import hashlib
import json
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cortado.model.features.framing import SAMPLE_RATE, SAMPLES_PER_STEP
from cortado.model.streaming.endpoint import Rule
from cortado.model.streaming.listener import Suspended
from cortado.model.streaming.stream import Samples
from cortado.model.streaming.suspension import SuspensionError

if TYPE_CHECKING:
    from cortado.model.backends.choice import Online

MAGIC, VERSION = b"CORTADO STREAM\n\0", 1
VAD_VERSION = 2  # of a stream that a voice activity detector hears too
CHECKSUM = hashlib.sha256().digest_size
_HEADER = struct.Struct(f"<{len(MAGIC)}sHII")  # magic, version, bytes of the facts, of the samples


class Kept(NamedTuple):
    """A suspended stream."""

    counts: list[int | None]  # samples received; steps taken, done, and left to flush, if it ended
    samples: Samples  # (N,) that wait for a step
    listener: Suspended
    utterances: list[Any]

    @property
    def position(self) -> float:
        """Seconds of the input on which the characters so far rest."""
        received, _, done, _ = self.counts
        return min((done or 0) * SAMPLES_PER_STEP, received or 0) / SAMPLE_RATE

    @property
    def characters(self) -> int:
        """Characters that the stream has told."""
        return int(self.utterances[1])


def packed(online: "Online", kept: Kept) -> bytes:
    """Return the bytes that `unpacked` reads with the same model, here or elsewhere."""
    facts: dict[str, Any] = {
        "backend": online.name,
        "model": online.digest.hex(),
        "rules": [list(rule.times) for rule in kept.listener.rules],
        "stream": kept.counts,
        "endpoint": kept.listener.endpoint,
        "utterances": kept.utterances,
    }
    vad = kept.listener.vad
    if vad:
        facts["vad"] = len(vad)
    text, heard = json.dumps(facts).encode(), kept.samples.astype("<f4").tobytes()
    header = _HEADER.pack(MAGIC, VAD_VERSION if vad else VERSION, len(text), len(heard))
    whole = header + text + heard + kept.listener.state + vad
    return whole + hashlib.sha256(whole).digest()


def unpacked(online: "Online", data: bytes) -> Kept:
    """Return the suspended stream in the bytes of `packed`.

    Raises:
        SuspensionError: it is no stream, damaged, of another version, model or backend.
    """
    facts, samples, state = _opened(data)
    for name, own in (("backend", online.name), ("model", online.digest.hex())):
        if facts[name] != own:
            raise SuspensionError(f"expected a stream of the {name} {own}, got {facts[name]}")
    rules = tuple(Rule(*times) for times in facts["rules"])
    end = len(state) - facts.get("vad", 0)
    listener = Suspended(state[:end], facts["endpoint"], rules, state[end:])
    return Kept(facts["stream"], samples, listener, facts["utterances"])


def _opened(data: bytes) -> tuple[dict[str, Any], Samples, bytes]:
    """Return the facts, the samples and the states in the bytes of a suspended stream.

    Raises:
        SuspensionError: they are none, damaged or of another version.
    """
    if len(data) < _HEADER.size + CHECKSUM or not data.startswith(MAGIC):
        raise SuspensionError(f"expected a suspended stream, got {len(data)} other bytes")
    _, version, text, heard = _HEADER.unpack_from(data)
    if version not in (VERSION, VAD_VERSION):
        raise SuspensionError(
            f"expected a stream of version {VERSION} or {VAD_VERSION}, got version {version}"
        )
    if hashlib.sha256(data[:-CHECKSUM]).digest() != data[-CHECKSUM:]:
        raise SuspensionError("expected a stream as it was suspended, got a damaged one")
    begin = _HEADER.size + text
    facts = json.loads(data[_HEADER.size : begin])
    samples = np.frombuffer(data[begin : begin + heard], "<f4").astype(np.float32)
    return facts, samples, data[begin + heard : -CHECKSUM]
