"""The memory and the processor time of live streams, at full speed."""

import gc
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cortado.model.emission import step_time
from cortado.model.features.framing import SAMPLE_RATE, SAMPLES_PER_STEP, STEP_SECONDS
from cortado.model.streaming.interface import Samples, StreamingRecognizer

Report = Callable[[str, int, int], None]

WARM_UP = 25  # steps
FEWEST, MOST, TOGETHER = 50, 1000, 25_000  # measured steps of a batch; of all its streams


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


def resident() -> int:
    """Return the bytes of memory that this process holds (0 where /proc does not tell)."""
    path = Path("/proc/self/statm")
    return int(path.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if path.exists() else 0


def memory(online: StreamingRecognizer, streams: int = 1000) -> Memory:
    """Return what the states of `streams` streams take."""
    small = online.stepper(1)
    small.step(np.zeros((1, SAMPLES_PER_STEP), np.float32), np.zeros(1, np.int64))
    gc.collect()
    before = resident()
    table = online.stepper(streams)
    table.reset(np.arange(streams))
    table.step(np.zeros((streams, SAMPLES_PER_STEP), np.float32), np.arange(streams))
    return Memory(table.bytes_per_stream, (resident() - before) / streams, streams)


def work(
    online: StreamingRecognizer,
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
        table, rows = online.stepper(count), np.arange(count)
        chosen = np.random.default_rng(count).integers(len(steps), size=count)
        times = []
        for step in range(WARM_UP + min(max(FEWEST, TOGETHER // count), MOST)):
            samples = steps[(chosen + step) % len(steps)]
            began = time.thread_time()
            table.step(samples, rows)
            times.append(time.thread_time() - began)
        seconds.append(float(np.median(times[WARM_UP:])))
    large = [k for k, count in enumerate(counts) if count >= 64]
    x, y = np.log([counts[k] for k in large]), np.log([seconds[k] for k in large])
    exponent = float(np.polyfit(x, y, 1)[0]) if len(large) > 1 else float("nan")
    return Work(tuple(counts), tuple(seconds), exponent)


@dataclass(frozen=True)
class Age:
    """One stream over hours of simulated audio at full speed."""

    hours: float
    new: float  # processor seconds of the median step of a new stream
    old: float  # and of this one after its hours, which hears the same minute in turn with it
    grown: int  # bytes that the process grew by after its first minute
    characters: int
    late: float  # seconds by which the last step's time differs from the audio's


def age(
    online: StreamingRecognizer, speech: Sequence[Samples], hours: float, progress: Report
) -> Age:
    """Take one stream through speech, silence, noise and clipping, turn by turn."""
    turns = _turns(speech)
    table, row = online.stepper(1), np.zeros(1, np.int64)
    total, minute = round(hours * 3600 / STEP_SECONDS), round(60 / STEP_SECONDS)
    characters = before = 0
    for step in range(total):
        emissions = table.step(turns[step % len(turns)][None], row)
        characters += int((emissions.symbols >= 0).sum())
        if step == minute:
            before = resident()
        if not step % minute:
            progress("minutes of one stream", step // minute, total // minute)
    late = step_time(total - 1, 0) - total * SAMPLES_PER_STEP / SAMPLE_RATE
    grown, tables, times = resident() - before, (online.stepper(1), table), np.zeros((minute, 2))
    for step in range(minute):
        for which in (step % 2, 1 - step % 2):
            began = time.thread_time()
            tables[which].step(turns[(total + step) % len(turns)][None], row)
            times[step, which] = time.thread_time() - began
    new, old = np.median(times, axis=0).tolist()
    return Age(hours, new, old, grown, characters, late)


def _turns(speech: Sequence[Samples]) -> NDArray[np.float32]:
    """Return (N, SAMPLES_PER_STEP) of speech, digital silence, noise, a constant and clipping."""
    random = np.random.default_rng(0)
    joined = np.concatenate(list(speech))[: 20 * SAMPLE_RATE]
    quiet = np.zeros(5 * SAMPLE_RATE, np.float32)
    noise = random.normal(0, 0.03, 5 * SAMPLE_RATE).astype(np.float32)
    parts = [joined, quiet, noise, quiet + np.float32(0.3), np.clip(20 * joined, -1, 1)]
    whole = np.concatenate(parts)
    return whole[: len(whole) // SAMPLES_PER_STEP * SAMPLES_PER_STEP].reshape(-1, SAMPLES_PER_STEP)
