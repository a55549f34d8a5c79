"""One live stream from samples to characters, which can be suspended and resumed elsewhere.

A suspended stream holds the model's state, the samples that wait for a step, and where its
utterance stands; resumed, in this process or another, it goes on as if nothing had been.
docs/streams.md describes the bytes.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cortado.model.streaming.endpoint import Rule
from cortado.model.streaming.listener import Listener, check_vad
from cortado.model.streaming.snapshot import Snapshot
from cortado.model.streaming.stream import Character, Samples
from cortado.model.streaming.utterances import Endpoint, Utterances

if TYPE_CHECKING:
    from cortado.model.backends.choice import Online
    from cortado.model.streaming.vad import Vad

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

    def __init__(
        self,
        online: "Online",
        rules: tuple[Rule, ...] | None = None,
        vad: "Vad | None" = None,
    ) -> None:
        """Begin a stream, by the usual rules if None; with () it is one utterance.

        Raises:
            ValueError: a rule asks for quiet, and there is no detector.
        """
        self._online = online
        self._stream = online.stream()
        self._listener = Listener(online, 1, rules=rules, vad=vad)
        self._utterances = Utterances(online.vocabulary.spaced)

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
        listener, utterances = self._listener.suspend(0), self._utterances.suspend()
        identity = self._online.name, self._online.digest.hex()
        return Snapshot(*identity, counts, samples, listener, utterances).to_bytes()

    @classmethod
    def resume(cls, online: "Online", data: bytes, vad: "Vad | None" = None) -> "LiveStream":
        """Return the stream that `suspend` returned, which goes on to the same bits.

        One that began with a detector needs it; one that began without goes on without.

        Raises:
            SnapshotError: it is no stream, damaged, of another version, model or backend, or
                of a detector that is not there.
        """
        kept = Snapshot.from_bytes(data)
        kept.check(online.name, online.digest)
        check_vad(kept.listener, vad is not None)
        found = cls(online, kept.listener.rules, vad if kept.listener.vad else None)
        found._stream.resume(kept.counts, kept.samples)
        found._utterances.resume(kept.utterances)
        found._listener.resume(0, kept.listener)
        return found
