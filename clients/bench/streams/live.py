"""Delays of live streams in the engine alone, without sockets, at the pace of speech."""

import asyncio
import gc
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cortado.clients.bench.streams.delays import Point, percentiles
from cortado.model.features.framing import SAMPLE_RATE
from cortado.model.streaming.interface import Samples, StreamingRecognizer
from cortado.model.streaming.update import Update
from cortado.server.engine import Engine
from cortado.server.live_stream import EngineStream
from cortado.server.metrics import Metrics

WARM_UP = 2.0  # seconds in which streams come, and the batching window finds its width
BUFFER = 30.0  # seconds: an overloaded engine falls behind, and nobody waits for room


class _Recorder:
    """Keeps the delays of steps; stands in for the metric of the same name."""

    def __init__(self) -> None:
        self._kept: list[NDArray[np.float64]] = []

    def observe_many(self, values: NDArray[np.float64]) -> None:
        self._kept.append(values)

    def clear(self) -> None:
        self._kept = []

    def delays(self) -> NDArray[np.float64]:
        return np.concatenate([np.zeros(0), *self._kept])


def measure(
    online: StreamingRecognizer,
    speech: Sequence[Samples],
    *,
    streams: int,
    chunk_ms: int,
    seconds: float,
    threads: int = 0,
    batch: int | None = None,
    part: str = "engine",
) -> Point:
    """Return the delays of `streams` live streams: from a step's audio being due to its symbols.

    Args:
        online: the recogniser.
        speech: recordings, which the streams speak over and over, each from a place of its own.
        streams: how many.
        chunk_ms: audio that comes at once; the streams' chunks are spread over the time evenly.
        seconds: to measure, after WARM_UP.
        threads: of the model.
        batch: most streams in one step.
        part: what the point is called.
    """
    recorder, metrics = _Recorder(), Metrics()
    metrics.delay = recorder  # type: ignore[assignment]
    engine = Engine(
        online,
        metrics,
        max_streams=streams,
        buffer_seconds=BUFFER,
        threads=threads,
        headroom=1.0,
        batch=batch,
    )
    busy = asyncio.run(_speak(engine, recorder, speech, streams, chunk_ms, seconds))
    delays = recorder.delays()
    figures = percentiles(delays)
    return Point(part, online.name, chunk_ms, streams, seconds, *figures, len(delays), busy)


def _ignore(update: Update) -> None:
    """Hear nothing."""


async def _speak(
    engine: Engine,
    recorder: _Recorder,
    speech: Sequence[Samples],
    count: int,
    chunk_ms: int,
    seconds: float,
) -> float:
    """Let streams speak; return the processor seconds that a second took."""
    chunk = SAMPLE_RATE * chunk_ms // 1000
    pieces = _pieces(speech, chunk)
    engine.start()
    streams = [engine.open(SAMPLE_RATE, _ignore) for _ in range(count)]
    starts = np.random.default_rng(0).integers(len(pieces), size=count).tolist()
    gc.collect()
    gc.disable()  # a pause of the benchmark's own is none of the engine's
    try:
        return await _pace(engine, recorder, streams, pieces, starts, chunk_ms / 1000, seconds)
    finally:
        gc.enable()
        for stream in streams:
            stream.close()
        engine.stop()


def _pieces(speech: Sequence[Samples], chunk: int) -> list[Samples]:
    joined = np.concatenate(list(speech)) if speech else np.zeros(0, np.float32)
    missing = max(0, chunk - len(joined))
    joined = np.pad(joined, (0, missing))
    return [joined[at : at + chunk] for at in range(0, len(joined) - chunk + 1, chunk)]


async def _pace(
    engine: Engine,
    recorder: _Recorder,
    streams: Sequence[EngineStream],
    pieces: Sequence[Samples],
    starts: Sequence[int],
    period: float,
    seconds: float,
) -> float:
    began = time.perf_counter()
    used = time.process_time()
    count, turn = len(streams), 0
    total = int((WARM_UP + seconds) / period)
    warm = False
    for turn in range(total):
        if not warm and turn * period >= WARM_UP:
            recorder.clear()
            began_measuring, used, warm = time.perf_counter(), time.process_time(), True
        for k, stream in enumerate(streams):
            due = began + (turn + 1 + k / count) * period
            while (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            engine.push(stream, pieces[(starts[k] + turn) % len(pieces)], due)
            if not k % 64:
                await asyncio.sleep(0)  # the engine hands results to this loop
        if time.perf_counter() - began > 3 * (WARM_UP + seconds):
            break  # hopelessly behind
    passed = time.perf_counter() - (began_measuring if warm else began)
    return (time.process_time() - used) / passed
