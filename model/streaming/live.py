"""One live stream from samples to characters, which can be suspended and resumed elsewhere.

A suspended stream holds the model's state, the samples that wait for a step, and where its
utterance stands; resumed, in this process or another, it goes on as if nothing had been.
docs/streams.md describes the bytes.
"""

from collections.abc import Iterable, Iterator

from cortado.model.streaming.endpoint import Rules
from cortado.model.streaming.interface import Samples, StreamingRecognizer
from cortado.model.streaming.pool import Pool
from cortado.model.streaming.snapshot import Snapshot
from cortado.model.streaming.update import Update
from cortado.model.streaming.vad import Vad


class LiveStream:
    """A stream at the model's rate, 16 kHz: a pool of one.

    Other rates are resampled before it: a resampler's state cannot be taken elsewhere, so it stays
    with whoever has the source.
    """

    def __init__(
        self,
        recognizer: StreamingRecognizer,
        rules: Rules | None = None,
        vad: Vad | None = None,
        snapshot: Snapshot | None = None,
    ) -> None:
        """Begin a stream, by the usual rules if None; with () it is one utterance.

        Raises:
            ValueError: a rule asks for quiet, and there is no detector.
            SnapshotError: it is to go on from a snapshot, and cannot here.
        """
        self._pool = Pool(recognizer, 1, rules=rules, vad=vad)
        self._row = self._pool.open(snapshot=snapshot)

    @property
    def position(self) -> float:
        """Seconds of the input on which the characters so far rest."""
        return self._pool.position(self._row)

    def push(self, samples: Samples) -> Iterator[Update]:
        """Hear any number of samples (N,); yield what the steps give.

        Raises:
            ValueError: not one-dimensional float32, or the input has ended.
        """
        self._pool.push(self._row, samples)
        return self._steps()

    def end(self) -> Iterator[Update]:
        """Hear nothing more; yield what the steps give."""
        self._pool.end(self._row)
        return self._steps()

    def _steps(self) -> Iterator[Update]:
        while len(self._pool.ready()):
            for _, update in self._pool.advance():
                yield update

    def suspend(self) -> bytes:
        """Return the stream as bytes, for `resume` with the same model, here or elsewhere.

        To be called between steps: once what `push` and `end` yield has been taken.
        """
        return self._pool.snapshot(self._row).to_bytes()

    @classmethod
    def resume(
        cls, recognizer: StreamingRecognizer, data: bytes, vad: Vad | None = None
    ) -> "LiveStream":
        """Return the stream that `suspend` returned, which goes on to the same bits.

        One that began with a detector needs it; one that began without goes on without.

        Raises:
            SnapshotError: it is no stream, damaged, of another version, model or backend, or
                of a detector that is not there.
        """
        return cls(recognizer, vad=vad, snapshot=Snapshot.from_bytes(data))


def listen(
    recognizer: StreamingRecognizer,
    pieces: Iterable[Samples],
    rules: Rules | None = None,
    vad: Vad | None = None,
) -> Iterator[Update]:
    """Yield what steps give as pieces of audio at 16 kHz come in."""
    stream = LiveStream(recognizer, rules, vad)
    for samples in pieces:
        yield from stream.push(samples)
    yield from stream.end()
