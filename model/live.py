"""One live stream from samples to characters, which can be suspended and resumed elsewhere.

A suspended stream holds the model's state, the samples that wait for a step, and where its
utterance stands; resumed, in this process or another, it goes on as if nothing had been.
docs/streams.md describes the bytes.
"""

import hashlib
import json
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from model.endpoint import RULES, Rule
from model.listener import Listener, Suspended
from model.online import Character, Samples
from model.suspension import SuspensionError
from model.utterances import Endpoint, Utterances

if TYPE_CHECKING:
    from model.backend import Online

MAGIC, VERSION = b"CORTADO STREAM\n\0", 1
CHECKSUM = hashlib.sha256().digest_size
_HEADER = struct.Struct(f"<{len(MAGIC)}sHII")  # magic, version, bytes of the facts, of the samples
_ROW = np.zeros(1, np.int64)


class Heard(NamedTuple):
    """What a step of a stream gave."""

    characters: list[Character]
    endpoint: Endpoint | None  # after the characters


class LiveStream:
    """A stream at the model's rate, 16 kHz.

    Other rates are resampled before it: a resampler's state cannot be taken elsewhere, so it stays
    with whoever has the source.
    """

    def __init__(self, online: "Online", rules: tuple[Rule, ...] = RULES) -> None:
        """Begin a stream; without rules it is one utterance."""
        self._online, self._rules = online, rules
        self._stream = online.stream()
        self._listener = Listener(online, 1, rules=rules)
        self._utterances = Utterances(online.vocabulary.characters)

    @property
    def position(self) -> float:
        """Seconds of the input on which the characters so far rest."""
        return self._stream.position

    def push(self, samples: Samples) -> Iterator[Heard]:
        """Hear any number of samples (N,); yield what each step gives.

        Raises:
            ValueError: not one-dimensional float32, or the input has ended.
        """
        self._stream.push(samples)
        return self._steps()

    def end(self) -> Iterator[Heard]:
        """Hear nothing more; yield what each step gives."""
        self._stream.end()
        return self._steps()

    def _steps(self) -> Iterator[Heard]:
        while (step := self._stream.next_step()) is not None:
            symbols, ended = self._listener.step(step[None], _ROW)
            written = self._stream.emitted(symbols[0].tolist())
            yield Heard(*self._utterances.hear(written, bool(ended[0])))

    def suspend(self) -> bytes:
        """Return the stream as bytes, for `resume` with the same model, here or elsewhere.

        To be called between steps: once what `push` and `end` yield has been taken.
        """
        counts, samples = self._stream.suspend()
        kept = self._listener.suspend(0)
        facts = {
            "backend": self._online.name,
            "model": self._online.digest.hex(),
            "rules": [list(vars(rule).values()) for rule in self._rules],
            "stream": counts,
            "endpoint": kept.endpoint,
            "utterances": self._utterances.suspend(),
        }
        text, heard = json.dumps(facts).encode(), samples.astype("<f4").tobytes()
        whole = _HEADER.pack(MAGIC, VERSION, len(text), len(heard)) + text + heard + kept.state
        return whole + hashlib.sha256(whole).digest()

    @classmethod
    def resume(cls, online: "Online", data: bytes) -> "LiveStream":
        """Return the stream that `suspend` returned, which goes on to the same bits.

        Raises:
            SuspensionError: it is no stream, damaged, of another version, model or backend.
        """
        facts, samples, state = _opened(data)
        for name, own in (("backend", online.name), ("model", online.digest.hex())):
            if facts[name] != own:
                raise SuspensionError(f"expected a stream of the {name} {own}, got {facts[name]}")
        found = cls(online, tuple(Rule(*times) for times in facts["rules"]))
        found._stream.resume(facts["stream"], samples)
        found._utterances.resume(facts["utterances"])
        found._listener.resume(0, Suspended(state, facts["endpoint"]))
        return found


def _opened(data: bytes) -> tuple[dict[str, Any], Samples, bytes]:
    """Return the facts, the samples and the state in the bytes of a suspended stream.

    Raises:
        SuspensionError: they are none, damaged or of another version.
    """
    if len(data) < _HEADER.size + CHECKSUM or not data.startswith(MAGIC):
        raise SuspensionError(f"expected a suspended stream, got {len(data)} other bytes")
    _, version, text, heard = _HEADER.unpack_from(data)
    if version != VERSION:
        raise SuspensionError(f"expected a stream of version {VERSION}, got version {version}")
    if hashlib.sha256(data[:-CHECKSUM]).digest() != data[-CHECKSUM:]:
        raise SuspensionError("expected a stream as it was suspended, got a damaged one")
    begin = _HEADER.size + text
    facts = json.loads(data[_HEADER.size : begin])
    samples = np.frombuffer(data[begin : begin + heard], "<f4").astype(np.float32)
    return facts, samples, data[begin + heard : -CHECKSUM]
