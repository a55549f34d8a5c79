"""One live stream from samples to characters, which can be suspended and resumed elsewhere.

A suspended stream holds the model's state, the samples that wait for a step, and where its
utterance stands; resumed, in this process or another, it goes on without a difference.
docs/streams.md describes the bytes.
"""

from collections.abc import Iterable, Iterator

from cortado.model.arrays import Samples
from cortado.model.streaming.endpoint import Rules
from cortado.model.streaming.interface import StreamingRecognizer
from cortado.model.streaming.options import DEFAULT_OPTIONS, StreamOptions
from cortado.model.streaming.pool import Pool
from cortado.model.streaming.snapshot import Snapshot
from cortado.model.streaming.update import Update
from cortado.model.streaming.vad import Vad


class LiveStream:
    """A stream at the model's rate, 16 kHz: a pool of one.

    The caller resamples other rates: a resampler's state cannot be part of a snapshot.
    """

    def __init__(
        self,
        recognizer: StreamingRecognizer,
        rules: Rules | None = None,
        vad: Vad | None = None,
        snapshot: Snapshot | None = None,
        options: StreamOptions = DEFAULT_OPTIONS,
    ) -> None:
        """Begin a stream with endpoint rules, None for the defaults, () for one utterance.

        Raises:
            ValueError: a rule has quiet, and there is no detector; too short a silence.
            PhrasesError: the phrases are too many, or there is no search that could weigh them.
            SnapshotError: the snapshot cannot be resumed here.
        """
        self._pool = Pool(recognizer, 1, rules=rules, vad=vad)
        self._row = self._pool.open(options, snapshot=snapshot)

    @property
    def position(self) -> float:
        """Seconds of input processed for the characters so far."""
        return self._pool.position(self._row)

    def push(self, samples: Samples) -> Iterator[Update]:
        """Add any number of samples (N,); yield the updates of the steps that they complete.

        Raises:
            ValueError: not one-dimensional float32, or the input has ended.
        """
        self._pool.push(self._row, samples)
        return self._steps()

    def end(self) -> Iterator[Update]:
        """End the input; yield the last updates."""
        self._pool.end(self._row)
        return self._steps()

    def _steps(self) -> Iterator[Update]:
        while len(self._pool.ready()):
            for _, update in self._pool.advance():
                yield update.within_input()

    def suspend(self) -> bytes:
        """Return the stream as bytes, for `resume` with the same model, here or elsewhere.

        Call it after consuming all updates that `push` and `end` yield.
        """
        return self._pool.snapshot(self._row).to_bytes()

    @classmethod
    def resume(
        cls, recognizer: StreamingRecognizer, data: bytes, vad: Vad | None = None
    ) -> "LiveStream":
        """Return the stream that `suspend` saved; its results are the same as without a break.

        A stream that began with a detector needs it; one that began without continues without.

        Raises:
            SnapshotError: the bytes are not a stream, are damaged, or need another version, model,
                backend or detector.
        """
        return cls(recognizer, vad=vad, snapshot=Snapshot.from_bytes(data))


def listen(
    recognizer: StreamingRecognizer,
    pieces: Iterable[Samples],
    rules: Rules | None = None,
    vad: Vad | None = None,
    options: StreamOptions = DEFAULT_OPTIONS,
) -> Iterator[Update]:
    """Return the updates of a stream, given pieces of audio at 16 kHz.

    Raises:
        PhrasesError: the phrases are too many, or there is no search that could weigh them.
    """
    stream = LiveStream(recognizer, rules, vad, options=options)

    def updates() -> Iterator[Update]:
        for samples in pieces:
            yield from stream.push(samples)
        yield from stream.end()

    return updates()
