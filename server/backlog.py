"""Audio of all live streams that waits for its step: `Stream` for a whole table.

Each stream has a place that holds a quarter of a second, beside all others', whence a batch is
copied at once; while more waits it has an array of its own, so that memory follows what waits.
Nothing here knows of threads: the engine locks.
"""

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from cortado.model.features.framing import SAMPLE_RATE, SAMPLES_PER_STEP
from cortado.model.streaming.stream import Samples

Integers = NDArray[np.int64]
USUAL = SAMPLE_RATE // 4  # samples in a row's place, enough while a stream keeps up
SPARE = 100  # steps beyond the room: the resampler's last samples, and one of silence
NOTHING = np.zeros(0, np.float32)
NEVER = -1  # steps to flush while the input goes on


class Steps(NamedTuple):
    """One step of each stream that had one."""

    rows: Integers  # (R,)
    samples: Samples  # (R, SAMPLES_PER_STEP)
    arrivals: NDArray[np.float64]  # (R,) when its audio was complete; nan for silence at the end
    generations: Integers  # (R,) of the rows' owners


class Backlog:
    """Samples in, steps out, for a number of rows."""

    def __init__(self, rows: int, seconds: float, flush_steps: int) -> None:
        """Make room for `seconds` of audio in each row."""
        self.room = int(seconds * SAMPLE_RATE)
        self._flush_steps = flush_steps
        self._places = np.empty((rows, USUAL), np.float32)  # memory from their first use on
        self._steps = sliding_window_view(self._places.reshape(-1), SAMPLES_PER_STEP)
        self._samples: list[Samples] = list(self._places)
        self._apart = np.zeros(rows, np.bool_)  # rows with an array of their own
        self._start = np.zeros(rows, np.int64)
        self._end = np.zeros(rows, np.int64)
        self._flush = np.full(rows, NEVER)
        self._taken = np.zeros(rows, np.int64)  # steps
        self._times = np.zeros((rows, self.room // SAMPLES_PER_STEP + flush_steps + SPARE))
        self._rows = np.arange(rows)
        self.generations = np.zeros(rows, np.int64)  # one more with each owner
        self.received = np.zeros(rows, np.int64)  # samples
        self.done = np.zeros(rows, np.int64)  # steps whose symbols came back

    def open(self, row: int) -> None:
        """Give a row to a new stream."""
        for array in (self._start, self._end, self._taken, self.received, self.done):
            array[row] = 0
        self._settle(row)
        self._flush[row] = NEVER
        self.generations[row] += 1

    def resume(self, row: int, counts: list[int | None], samples: Samples, now: float) -> None:
        """Let a row that was opened go on with what another stream's `suspend` returned."""
        received, taken, done, _ = (count or 0 for count in counts)
        self._taken[row], self.done[row] = taken, done
        self.received[row] = received - len(samples)
        self.push(row, samples, now, forced=True)

    def suspend(self, row: int) -> tuple[list[int | None], Samples]:
        """Return a row's counts, and the (N,) samples that wait, less than a step."""
        counts = [int(array[row]) for array in (self.received, self._taken, self.done)]
        samples = self._samples[row][int(self._start[row]) : int(self._end[row])]
        return [*counts, None], samples.copy()

    def drained(self, row: int) -> bool:
        """Return whether a row's input goes on and every whole step's symbols came back."""
        waits = self.buffered(row) >= SAMPLES_PER_STEP
        return not waits and self._flush[row] == NEVER and self.done[row] == self._taken[row]

    close = open  # nothing waits any more, and what is under way is nobody's

    def buffered(self, row: int) -> int:
        """Return the samples that wait."""
        return int(self._end[row] - self._start[row])

    def push(self, row: int, samples: Samples, now: float, *, forced: bool = False) -> bool:
        """Add (N,) samples if there is room for them, or `forced`; return whether it was done.

        Raises:
            ValueError: the input has ended.
        """
        if self._flush[row] != NEVER:
            raise ValueError(f"expected no audio after the end, got {len(samples)} samples")
        waiting, count = self.buffered(row), len(samples)
        if waiting + count > self.room and not forced:
            return False
        self._put(row, samples)
        self.received[row] += count
        first = int(self._taken[row]) + waiting // SAMPLES_PER_STEP
        self._stamp(row, first, (waiting + count) // SAMPLES_PER_STEP, now)
        return True

    def finish(self, row: int, samples: Samples, now: float) -> None:
        """End the input with (N,) samples: silence completes the last step, then flushes."""
        if self._flush[row] != NEVER:
            return
        self.push(row, samples, now, forced=True)
        waiting = self.buffered(row)
        missing = -waiting % SAMPLES_PER_STEP
        self._put(row, np.zeros(missing, np.float32))
        self._flush[row] = self._flush_steps
        first = int(self._taken[row]) + waiting // SAMPLES_PER_STEP
        self._stamp(row, first, (waiting + missing) // SAMPLES_PER_STEP + self._flush_steps, now)

    def _put(self, row: int, samples: Samples) -> None:
        """Add samples to a row's array, which is made as long as it takes."""
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
        """Return the row's place, which is its array from now on."""
        self._apart[row] = False
        self._samples[row] = self._places[row]
        return self._samples[row]

    def _stamp(self, row: int, first: int, steps: int, now: float) -> None:
        """Note when the steps from `first` to the `steps`-th that waits became complete."""
        size = self._times.shape[1]
        for step in range(first, int(self._taken[row]) + steps):
            self._times[row, step % size] = now

    def ready(self) -> Integers:
        """Return the rows that have a step."""
        whole = self._end - self._start >= SAMPLES_PER_STEP
        return self._rows[whole | (self._flush > 0)]

    def waiting_since(self, rows: Integers) -> NDArray[np.float64]:
        """Return (R,) when the next steps of ready rows were complete."""
        return self._times[rows, self._taken[rows] % self._times.shape[1]]

    def take(self, rows: Integers) -> Steps:
        """Take the next step of ready rows."""
        arrivals = self.waiting_since(rows)
        starts = self._start[rows]
        flushing = self._end[rows] - starts < SAMPLES_PER_STEP
        arrivals[flushing] = np.nan
        samples = self._steps[rows * USUAL + np.minimum(starts, USUAL - SAMPLES_PER_STEP)]
        samples[flushing] = 0
        for index in np.flatnonzero(self._apart[rows] & ~flushing).tolist():
            start = starts[index]
            samples[index] = self._samples[rows[index]][start : start + SAMPLES_PER_STEP]
        self._flush[rows[flushing]] -= 1
        self._start[rows[~flushing]] += SAMPLES_PER_STEP
        self._taken[rows] += 1
        return Steps(rows, samples, arrivals, self.generations[rows])

    def count(self, steps: Steps) -> NDArray[np.bool_]:
        """Count steps as done; return (R,) whether each row is still its owner's."""
        same = self.generations[steps.rows] == steps.generations
        self.done[steps.rows[same]] += 1
        return same

    def finished(self, rows: Integers) -> NDArray[np.bool_]:
        """Return (R,) whether the input has ended and every step's symbols came back."""
        drained = self._end[rows] - self._start[rows] < SAMPLES_PER_STEP
        return (self._flush[rows] == 0) & drained & (self.done[rows] == self._taken[rows])

    def positions(self, rows: Integers) -> NDArray[np.float64]:
        """Return (R,) seconds of the input on which the rows' characters so far rest."""
        samples = np.minimum(self.done[rows] * SAMPLES_PER_STEP, self.received[rows])
        return samples / SAMPLE_RATE
