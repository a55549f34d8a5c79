"""Admission: how many live streams an engine can carry, from the measured cost of a step.

Batches of one size cost nearly the same, and a live stream needs a step every STEP_SECONDS. The
cost is measured on full batches of speech, before the first stream comes and every few seconds from
then on, and on live batches that are large. The capacity follows both, up and down: a machine that
was busy when the server came up is not slow for ever. It also sets how long a step may wait for
more streams.
"""

from collections import deque
from statistics import median_low
from time import perf_counter

import numpy as np

from cortado.model.features.framing import SAMPLES_PER_STEP, STEP_SECONDS
from cortado.model.streaming.interface import StreamingRecognizer
from cortado.model.streaming.pool import Pool
from cortado.model.streaming.vad import Vad
from cortado.server.sample import speech

REPEATS = 5
WARM_STEPS = 50  # two seconds: a search that begins within a word takes twice the time at first
SMOOTHING = 0.02  # weight of the newest batch in the running means
FREQUENT = 50  # batches between two changes of the capacity
CALIBRATE_SECONDS = 10.0  # between two batches of speech
CALIBRATIONS = 5  # whose median counts: a moment in which the machine was busy changes nothing
LOADED = 0.8  # share of the time in which steps are taken, beyond which none is left to measure
NOTICED = 0.05  # least relative change of the capacity, so that it does not flap


class Capacity:
    """The measured cost of a step, what follows for admission, and the batching window."""

    def __init__(self, max_streams: int, headroom: float) -> None:
        """Keep `headroom`, a fraction of the time, free; with 1 only `max_streams` counts."""
        self.streams = max_streams  # most live streams at once
        self.window = 0.0  # seconds that a step may wait for others
        self.cost = 0.0  # seconds for one stream's step in a large batch
        self._max_streams, self._headroom = max_streams, headroom
        self._batch = 1  # streams in the smallest batch that counts as large
        self._speech: SpeechBatch | None = None
        self._calibrations: deque[float] = deque(maxlen=CALIBRATIONS)  # costs
        self._calibrated = perf_counter()
        self._large = False  # a large live batch came since then
        self._load = 0.0  # running mean of the share of the time in which steps are taken
        self.last = perf_counter()
        self._seen = 0  # batches

    def measure(
        self, recognizer: StreamingRecognizer, threads: int, vad: Vad | None = None
    ) -> float:
        """Step batches of speech, endpoints included; return and keep the cost, in seconds.

        With a headroom of 1 the cost does not count: one stream's first steps warm the model up.
        """
        self._batch = recognizer.batch
        if self._headroom == 1:
            SpeechBatch(recognizer, threads, 1, vad)
            return self.cost
        self._speech = SpeechBatch(recognizer, threads, max(self._max_streams, 1), vad)
        self._calibrations.append(min(self._speech.cost() for _ in range(REPEATS)))
        self.last = self._calibrated = perf_counter()
        self._set(self._calibrations[0])
        return self.cost

    @property
    def due(self) -> float:
        """Seconds until the next batch of speech is to be stepped; 0 if it is due."""
        if self._speech is None or self._load > LOADED:
            return CALIBRATE_SECONDS
        return max(0.0, self._calibrated + CALIBRATE_SECONDS - perf_counter())

    def calibrate(self) -> bool:
        """Step a batch of speech; return whether the capacity is new."""
        assert self._speech is not None
        self._calibrations.append(self._speech.cost())
        self._calibrated = perf_counter()
        if not self._large:  # nothing else says what a step costs now
            self.cost = self._least
        self._large = False
        return self._follow()

    @property
    def _least(self) -> float:
        """The cost of a step of speech; live streams that are silent cost less."""
        return median_low(self._calibrations) if self._calibrations else 0.0

    def observe(self, streams: int, started: float, ended: float) -> bool:
        """Take the times of a live batch into account; return whether the capacity is new."""
        busy, passed = ended - started, max(ended - self.last, 1e-9)
        weight = 1 - (1 - SMOOTHING) ** max(1.0, passed / STEP_SECONDS * 4)
        self._load += weight * (min(1.0, busy / passed) - self._load)
        self.last = ended
        self.window = STEP_SECONDS * self._load**2
        if streams < self._batch:
            return False
        self.cost += SMOOTHING * (busy / streams - self.cost)
        self._large = True
        self._seen += 1
        return not self._seen % FREQUENT and self._follow()

    def _follow(self) -> bool:
        """Let the capacity follow the cost; return whether it does."""
        cost, before = max(self.cost, self._least), self.streams
        if abs(self._carried(cost) - before) <= NOTICED * before:
            return False
        self._set(cost)
        return self.streams != before

    def _set(self, cost: float) -> None:
        self.cost = cost
        if self._headroom < 1:
            self.streams = self._carried(cost)

    def _carried(self, cost: float) -> int:
        """Return how many streams can be carried if each costs so many seconds a step."""
        carried = int((1 - self._headroom) * STEP_SECONDS / cost)
        return min(self._max_streams, max(1, carried))


class SpeechBatch:
    """A batch of streams of speech, each at another place of one recording, to measure with."""

    def __init__(
        self, recognizer: StreamingRecognizer, threads: int, most: int, vad: Vad | None
    ) -> None:
        """Open as many streams as `threads` threads step at once, at most so many."""
        streams = min(recognizer.batch * threads, most)
        self._pool = Pool(recognizer, streams, threads=threads, vad=vad)
        self._rows = [self._pool.open() for _ in range(streams)]
        self._steps = speech().reshape(-1, SAMPLES_PER_STEP)
        self._places = np.arange(streams) * len(self._steps) // streams
        for _ in range(WARM_STEPS):
            self.cost()

    def cost(self) -> float:
        """Step the batch; return the seconds that a stream's step costs in it."""
        for row, samples in zip(self._rows, self._steps[self._places], strict=True):
            self._pool.push(row, samples)
        self._places = (self._places + 1) % len(self._steps)
        batch = self._pool.take(self._pool.ready())
        began = perf_counter()
        output = self._pool.step(batch)
        cost = (perf_counter() - began) / len(self._rows)
        self._pool.settle(batch, output)
        return cost
