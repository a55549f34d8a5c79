"""The memory and the processor time of live streams, at full speed."""

import gc
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cortado.model.arrays import Samples
from cortado.model.features.framing import SAMPLES_PER_STEP
from cortado.model.streaming.interface import StreamingRecognizer
from cortado.server.memory import give_back

WARM_UP = 25  # steps
MIN_STEPS, MAX_STEPS = 50, 1000  # measured, of a batch
STREAM_STEPS = 25_000  # measured, of all streams of a batch together


@dataclass(frozen=True)
class Memory:
    """Memory of live streams, in bytes."""

    state: int  # of the model, of one stream
    resident: float  # that the process grew by for one stream's state, all of it touched
    streams: int


@dataclass(frozen=True)
class Work:
    """Time of steps of the model alone, by one thread."""

    streams: tuple[int, ...]
    seconds: tuple[float, ...]  # of a step of so many
    exponent: float  # of the seconds' growth from 64 streams on


def resident(process: int | str = "self") -> int:
    """Return the resident bytes of a process (0 without /proc)."""
    path = Path(f"/proc/{process}/statm")
    return int(path.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if path.exists() else 0


def memory(recognizer: StreamingRecognizer, streams: int = 1000) -> Memory:
    """Return the memory of the states of `streams` streams."""
    small = recognizer.stepper(1)
    small.step(np.zeros((1, SAMPLES_PER_STEP), np.float32), np.zeros(1, np.int64))
    gc.collect()
    give_back()  # so that using it anew counts as growth
    before = resident()
    stepper = recognizer.stepper(streams)
    stepper.reset(np.arange(streams))
    stepper.step(np.zeros((streams, SAMPLES_PER_STEP), np.float32), np.arange(streams))
    return Memory(stepper.bytes_per_stream, (resident() - before) / streams, streams)


def work(
    recognizer: StreamingRecognizer,
    speech: Sequence[Samples],
    counts: Sequence[int] = (1, 16, 64, 250, 1000),
) -> Work:
    """Return how long a step of so many streams takes one core: the median over speech.

    The first second is not counted: a stream that has heard nothing has one hypothesis.
    """
    joined = np.concatenate(list(speech))
    steps = joined[: len(joined) // SAMPLES_PER_STEP * SAMPLES_PER_STEP]
    steps = steps.reshape(-1, SAMPLES_PER_STEP)
    seconds = []
    for count in counts:
        stepper, rows = recognizer.stepper(count, 1), np.arange(count)
        chosen = np.random.default_rng(count).integers(len(steps), size=count)
        times = []
        for step in range(WARM_UP + min(max(MIN_STEPS, STREAM_STEPS // count), MAX_STEPS)):
            samples = steps[(chosen + step) % len(steps)]
            started = time.thread_time()
            stepper.step(samples, rows)
            times.append(time.thread_time() - started)
        seconds.append(float(np.median(times[WARM_UP:])))
    large = [k for k, count in enumerate(counts) if count >= 64]
    x, y = np.log([counts[k] for k in large]), np.log([seconds[k] for k in large])
    exponent = float(np.polyfit(x, y, 1)[0]) if len(large) > 1 else float("nan")
    return Work(tuple(counts), tuple(seconds), exponent)
