"""Audio buffers of S streams, from which steps of the model are taken.

Each stream has a place for a quarter of a second in one shared array, from which a batch is copied
at once. While more audio waits, the stream has an array of its own, so memory follows the need.
"""

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from cortado.model.arrays import Rows, Samples
from cortado.model.features.framing import SAMPLE_RATE, SAMPLES_PER_STEP

USUAL = SAMPLE_RATE // 4  # samples in a row's place, enough while the model keeps up
GOES_ON = -1  # in place of the steps to flush, while the input goes on


class Steps(NamedTuple):
    """The next step of each of R streams."""

    rows: Rows  # (R,)
    samples: Samples  # (R, SAMPLES_PER_STEP)
    numbers: NDArray[np.int64]  # (R,) of the steps in their streams, from 0 on
    flushing: NDArray[np.bool_]  # (R,) whether it is silence after the end of the input
    last: NDArray[np.bool_]  # (R,) whether it is the stream's last
    owners: NDArray[np.int64]  # (R,) counts each row's streams: the one that the step belongs to


class Buffer:
    """Samples in, steps out, for S rows."""

    def __init__(self, rows: int, flush_steps: int) -> None:
        """Make `rows` rows, whose inputs are followed by `flush_steps` steps of silence."""
        self._flush_steps = flush_steps
        self._places = np.empty((rows, USUAL), np.float32)  # takes memory from its first use on
        self._steps = sliding_window_view(self._places.reshape(-1), SAMPLES_PER_STEP)
        self._samples: list[Samples] = list(self._places)
        self._apart = np.zeros(rows, np.bool_)  # rows with an array of their own
        self._start = np.zeros(rows, np.int64)
        self._end = np.zeros(rows, np.int64)
        self._flush = np.full(rows, GOES_ON)
        self._taken = np.zeros(rows, np.int64)  # steps
        self._done = np.zeros(rows, np.int64)  # steps whose emissions came back
        self._received = np.zeros(rows, np.int64)  # samples
        self._owners = np.zeros(rows, np.int64)  # number of streams that have had the row
        self._rows = np.arange(rows)

    def open(self, row: int) -> None:
        """Give a row to a new stream; steps in progress of the last one will be ignored."""
        for array in (self._start, self._end, self._taken, self._done, self._received):
            array[row] = 0
        self._settle(row)
        self._flush[row] = GOES_ON
        self._owners[row] += 1

    close = open  # drops the waiting audio

    def restore(self, row: int, received: int, steps: int, flush: int, samples: Samples) -> None:
        """Continue in an opened row where `snapshot` was called."""
        self._taken[row] = self._done[row] = steps
        self.push(row, samples)
        self._received[row], self._flush[row] = received, flush

    def snapshot(self, row: int) -> tuple[int, int, int, Samples]:
        """Return a row's samples received, steps done, steps to flush, and samples that wait."""
        counts = (int(array[row]) for array in (self._received, self._done, self._flush))
        samples = self._samples[row][int(self._start[row]) : int(self._end[row])]
        return *counts, samples.copy()  # type: ignore[return-value]

    def waiting(self, row: int) -> int:
        """Return the samples that wait for a step."""
        return int(self._end[row] - self._start[row])

    def complete(self, row: int) -> int:
        """Return how many steps of a row are complete: those taken and those that wait."""
        waiting = self.waiting(row) // SAMPLES_PER_STEP + max(int(self._flush[row]), 0)
        return int(self._taken[row]) + waiting

    def taken(self, rows: Rows) -> NDArray[np.int64]:
        """Return (R,) numbers of steps taken."""
        return self._taken[rows]

    def push(self, row: int, samples: Samples) -> range:
        """Add (N,) samples; return the numbers of the steps that they complete.

        Raises:
            ValueError: not one-dimensional float32, or the input has ended.
        """
        if self._flush[row] != GOES_ON:
            raise ValueError(f"expected no audio after the end, got {len(samples)} samples")
        if samples.ndim != 1 or samples.dtype != np.float32:
            raise ValueError(f"expected (N,) float32 samples, got {samples.shape} {samples.dtype}")
        waiting, taken, count = self.waiting(row), int(self._taken[row]), len(samples)
        self._put(row, samples)
        self._received[row] += count
        last = taken + (waiting + count) // SAMPLES_PER_STEP
        return range(taken + waiting // SAMPLES_PER_STEP, last)

    def end(self, row: int) -> range:
        """End the input: silence completes the last step, then flushes; return those steps."""
        first = self.complete(row)
        if self._flush[row] == GOES_ON:
            self._put(row, np.zeros(-self.waiting(row) % SAMPLES_PER_STEP, np.float32))
            self._flush[row] = self._flush_steps
        return range(first, self.complete(row))

    def _put(self, row: int, samples: Samples) -> None:
        """Add samples to a row's array, which grows if needed."""
        array, start, end = self._samples[row], int(self._start[row]), int(self._end[row])
        needed = end - start + len(samples)
        if end + len(samples) > len(array):
            left = array[start:end].copy()
            if needed <= USUAL:
                array = self._settle(row)
            elif needed > len(array):
                array = self._samples[row] = np.empty(2 * needed, np.float32)
                self._apart[row] = True
            array[: len(left)] = left
            self._start[row], end = 0, len(left)
        array[end : end + len(samples)] = samples
        self._end[row] = end + len(samples)

    def _settle(self, row: int) -> Samples:
        """Make the row's place its array again, and return it."""
        self._apart[row] = False
        self._samples[row] = self._places[row]
        return self._samples[row]

    def ready(self) -> Rows:
        """Return the rows that have a step."""
        whole = self._end - self._start >= SAMPLES_PER_STEP
        return self._rows[whole | (self._flush > 0)]

    def take(self, rows: Rows) -> Steps:
        """Take the next step of ready rows."""
        starts = self._start[rows]
        flushing = self._end[rows] - starts < SAMPLES_PER_STEP
        samples = self._steps[rows * USUAL + np.minimum(starts, USUAL - SAMPLES_PER_STEP)]
        samples[flushing] = 0
        for index in np.flatnonzero(self._apart[rows] & ~flushing).tolist():
            start = starts[index]
            samples[index] = self._samples[rows[index]][start : start + SAMPLES_PER_STEP]
        self._flush[rows[flushing]] -= 1
        self._start[rows[~flushing]] += SAMPLES_PER_STEP
        numbers = self._taken[rows]
        self._taken[rows] = numbers + 1
        last = flushing & (self._flush[rows] == 0)
        return Steps(rows, samples, numbers, flushing, last, self._owners[rows])

    def count(self, steps: Steps) -> NDArray[np.bool_]:
        """Count steps as done; return (R,) whether each row still belongs to the same stream."""
        same = self._owners[steps.rows] == steps.owners
        self._done[steps.rows[same]] += 1
        return same

    def drop(self, rows: Rows) -> None:
        """Drop the audio that waits in (R,) rows, and the ends of their inputs."""
        self._start[rows] = self._end[rows]
        self._flush[rows] = GOES_ON

    def drained(self, row: int) -> bool:
        """Return whether a row's input goes on and all its whole steps are done."""
        waits = self.waiting(row) >= SAMPLES_PER_STEP
        return not waits and self._flush[row] == GOES_ON and self.at_rest(row)

    def at_rest(self, row: int) -> bool:
        """Return whether no step of a row is in progress."""
        return bool(self._done[row] == self._taken[row])

    def finished(self, rows: Rows) -> NDArray[np.bool_]:
        """Return (R,) whether the input has ended and all steps are done."""
        empty = self._end[rows] - self._start[rows] < SAMPLES_PER_STEP
        return (self._flush[rows] == 0) & empty & (self._done[rows] == self._taken[rows])

    def beyond(self, steps: Steps) -> NDArray[np.bool_]:
        """Return (R,) whether steps reach beyond the end of the input."""
        return (steps.numbers + 1) * SAMPLES_PER_STEP > self._received[steps.rows]

    def positions(self, rows: Rows) -> NDArray[np.float64]:
        """Return (R,) seconds of input processed for the rows' characters so far."""
        samples = np.minimum(self._done[rows] * SAMPLES_PER_STEP, self._received[rows])
        return samples / SAMPLE_RATE
