"""One stream around the model: samples in, steps out, characters with their times.

Nothing here needs torch: serving with the fast backend does without it.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cortado.model.features.framing import SAMPLE_RATE, SAMPLES_PER_STEP, STEP_SECONDS
from cortado.model.vocabulary import Vocabulary

Samples = NDArray[np.float32]

BATCH = 64  # streams in a batch that says what a step of many costs, on a CPU
FLUSH_STEPS = 8  # steps of silence after the end of the input: look-ahead, then late stops
LATE = 1 << 16  # in what a step writes: a symbol, and this for each step since it was heard


@dataclass(frozen=True)
class Character:
    """A character and when it was heard."""

    text: str
    time: float  # seconds: the end of the encoder frame where the attention stopped
    late: float = 0.0  # seconds from then until it was certain, in a search of several hypotheses


class Stream:
    """The bookkeeping of one stream: samples in, steps out, characters with their times."""

    def __init__(
        self, vocabulary: Vocabulary, delay_steps: int, flush_steps: int = FLUSH_STEPS
    ) -> None:
        """Begin a stream for a recogniser's vocabulary, `delay_steps` and `flush_steps`."""
        self._vocabulary = vocabulary
        self._delay_steps, self._flush_steps = delay_steps, flush_steps
        self._waiting: deque[Samples] = deque()
        self._buffered = 0  # samples in _waiting
        self._flush_left: int | None = None  # None until the end of the input
        self.received = 0  # samples
        self.steps_taken = 0  # given out by next_step
        self.steps_done = 0  # whose symbols came back

    @property
    def buffered(self) -> int:
        """Samples that wait for a step."""
        return self._buffered

    @property
    def ready(self) -> bool:
        """Whether next_step has something to give."""
        return self._buffered >= SAMPLES_PER_STEP or bool(self._flush_left)

    @property
    def finished(self) -> bool:
        """Whether the input has ended and every step's symbols came back."""
        ended = self._flush_left == 0 and self._buffered == 0
        return ended and self.steps_done == self.steps_taken

    @property
    def position(self) -> float:
        """Seconds of the input on which the characters so far rest."""
        return min(self.steps_done * SAMPLES_PER_STEP, self.received) / SAMPLE_RATE

    def push(self, samples: Samples) -> None:
        """Add any number of samples at 16 kHz.

        Raises:
            ValueError: not one-dimensional float32, or the input has ended.
        """
        if self._flush_left is not None:
            raise ValueError(f"expected no audio after the end, got {len(samples)} samples")
        if samples.ndim != 1 or samples.dtype != np.float32:
            raise ValueError(f"expected (N,) float32 samples, got {samples.shape} {samples.dtype}")
        if len(samples):
            self._waiting.append(samples)
            self._buffered += len(samples)
            self.received += len(samples)

    def end(self) -> None:
        """Say that the input has ended: silence completes the last step, then flushes."""
        if self._flush_left is not None:
            return
        missing = -self._buffered % SAMPLES_PER_STEP
        if missing:
            self._waiting.append(np.zeros(missing, np.float32))
            self._buffered += missing
        self._flush_left = self._flush_steps

    def next_step(self) -> Samples | None:
        """Return the next SAMPLES_PER_STEP samples, or None while there are not as many."""
        if self._buffered >= SAMPLES_PER_STEP:
            step = self._take(SAMPLES_PER_STEP)
        elif self._flush_left:
            self._flush_left -= 1
            step = np.zeros(SAMPLES_PER_STEP, np.float32)
        else:
            return None
        self.steps_taken += 1
        return step

    def suspend(self) -> tuple[list[int | None], Samples]:
        """Return what `resume` takes: counts, and the samples that wait."""
        counts = [self.received, self.steps_taken, self.steps_done, self._flush_left]
        return counts, np.concatenate([np.zeros(0, np.float32), *self._waiting])

    def resume(self, counts: list[int | None], samples: Samples) -> None:
        """Go on where `suspend` was called."""
        received, taken, done, self._flush_left = counts
        self.received, self.steps_taken, self.steps_done = received or 0, taken or 0, done or 0
        self._waiting, self._buffered = deque([samples]), len(samples)

    def _take(self, count: int) -> Samples:
        taken = np.empty(count, np.float32)
        filled = 0
        while filled < count:
            piece = self._waiting.popleft()
            used = min(len(piece), count - filled)
            taken[filled : filled + used] = piece[:used]
            if used < len(piece):
                self._waiting.appendleft(piece[used:])
            filled += used
        self._buffered -= count
        return taken

    def emitted(self, symbols: Sequence[int]) -> list[Character]:
        """Return the characters of a step's symbols; call once for each step, in order."""
        self.steps_done += 1
        return told(self._vocabulary, symbols, self.steps_done - 1, self._delay_steps)


def told(
    vocabulary: Vocabulary, symbols: Iterable[int], step: int, delay_steps: int
) -> list[Character]:
    """Return the characters of what a stream's step wrote, -1 for nothing, at once or late."""
    found = []
    for symbol in symbols:
        if symbol >= 0:
            late = symbol // LATE
            time = step_time(step - late, delay_steps)
            found += spelt(vocabulary, symbol % LATE, time, round(late * STEP_SECONDS, 3))
    return found


def spelt(vocabulary: Vocabulary, symbol: int, time: float, late: float = 0.0) -> list[Character]:
    """Return the characters of a symbol that was heard at a time in seconds."""
    return [Character(one, time, late) for one in vocabulary.written[symbol]]


def step_time(step: int, delay_steps: int) -> float:
    """Return the time in seconds of what a stream's step, from 0 on, writes.

    It is the end of the encoder frame that the step gives, `delay_steps` before the step's own.
    """
    return round(max(step + 1 - delay_steps, 0) * STEP_SECONDS, 3)
