"""Admission: how many live streams an engine can carry, from the measured cost of a step.

Batches of one size cost nearly the same, and a live stream needs a step every STEP_SECONDS. The
cost is measured on full batches before the first stream comes, and again whenever live batches are
large; a machine that becomes slower admits fewer streams. It also sets how long a step may wait
for more streams.
"""

from math import log2
from time import perf_counter

import numpy as np

from cortado.model.features.framing import SAMPLES_PER_STEP, STEP_SECONDS
from cortado.model.streaming.interface import StreamingRecognizer
from cortado.model.streaming.pool import Pool
from cortado.model.streaming.vad import Vad

REPEATS = 5
A_DOUBLING = (
    0.55  # a doubling of the hypotheses makes speech this much more costly, relative to noise
)
SMOOTHING = 0.02  # weight of the newest batch in the running means
FREQUENT = 50  # batches between two changes of the capacity


class Capacity:
    """The measured cost of a step, what follows for admission, and the batching window."""

    def __init__(self, max_streams: int, headroom: float) -> None:
        """Keep `headroom`, a fraction of the time, free; with 1 only `max_streams` counts."""
        self.streams = max_streams  # most live streams at once
        self.window = 0.0  # seconds that a step may wait for others
        self.cost = 0.0  # seconds for one stream's step in a large batch
        self._max_streams, self._headroom = max_streams, headroom
        self._batch = 1  # streams in the smallest batch that counts as large
        self._least = 0.0  # cost, measured at the start
        self._load = 0.0  # running mean of the share of the time in which steps are taken
        self.last = perf_counter()
        self._seen = 0  # batches

    def measure(
        self, recognizer: StreamingRecognizer, threads: int, vad: Vad | None = None
    ) -> float:
        """Step batches of noise, endpoints included; return and keep the cost, in seconds.

        The cost is scaled up to that of speech, where a search has more hypotheses to extend.
        """
        self._batch = recognizer.batch
        streams = min(recognizer.batch * threads, max(self._max_streams, 1))
        pool = Pool(recognizer, streams, threads=threads, vad=vad)
        noise = np.random.default_rng(0).normal(0, 0.05, (streams, SAMPLES_PER_STEP))
        rows, best = [pool.open() for _ in range(streams)], np.inf
        for _ in range(REPEATS):
            for row, samples in zip(rows, noise.astype(np.float32), strict=True):
                pool.push(row, samples)
            batch = pool.take(pool.ready())
            began = perf_counter()
            pool.step(batch)
            best = min(best, perf_counter() - began)
        self._least = best / streams * (1.2 + A_DOUBLING * log2(recognizer.beam.width))
        self.last = perf_counter()
        self._set(self._least)
        return self.cost

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
        self._seen += 1
        if self._seen % FREQUENT:
            return False
        self._set(max(self.cost, self._least))
        return True

    def _set(self, cost: float) -> None:
        self.cost = cost
        carried = int((1 - self._headroom) * STEP_SECONDS / cost)
        if self._headroom < 1:
            self.streams = min(self._max_streams, max(1, carried))
