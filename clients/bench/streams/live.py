"""Delays of live streams in the engine alone, without sockets, at the pace of speech."""

import asyncio
import gc
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cortado.clients.bench.streams.delays import BEGIN, WARM_UP, Point, percentiles
from cortado.model.arrays import Samples
from cortado.model.features.framing import SAMPLE_RATE
from cortado.model.streaming.interface import StreamingRecognizer
from cortado.server.engine import Engine
from cortado.server.engine_stream import EngineStream
from cortado.server.metrics import Metrics
from cortado.server.protocol.messages import Start

BUFFER = 30.0  # seconds of audio that an overloaded engine may fall behind


class _Recorder:
    """Records the delays of steps, in place of the engine's metric."""

    def __init__(self) -> None:
        self._delays: list[NDArray[np.float64]] = []

    def observe_many(self, values: NDArray[np.float64]) -> None:
        self._delays.append(values)

    def clear(self) -> None:
        self._delays = []

    def delays(self) -> NDArray[np.float64]:
        return np.concatenate([np.zeros(0), *self._delays])


def measure(
    recognizer: StreamingRecognizer,
    speech: Sequence[Samples],
    *,
    streams: int,
    chunk_ms: int,
    seconds: float,
    threads: int = 0,
) -> Point:
    """Return the delays of `streams` live streams: from a step's audio being due to its symbols.

    Args:
        recognizer: streaming recogniser.
        speech: recordings, which all streams repeat, each from a random position on.
        streams: their number.
        chunk_ms: length of a chunk; the chunks of all streams are spread evenly over time.
        seconds: to measure, after WARM_UP.
        threads: of the model.
    """
    recorder, metrics = _Recorder(), Metrics()
    metrics.delay = recorder  # type: ignore[assignment]
    engine = Engine(
        recognizer,
        metrics,
        max_streams=streams,
        buffer_seconds=BUFFER,
        threads=threads,
        headroom=1.0,
    )
    busy = asyncio.run(_run(engine, recorder, speech, streams, chunk_ms, seconds))
    delays = recorder.delays()
    figures = percentiles(delays)
    return Point("engine", recognizer.name, chunk_ms, streams, seconds, *figures, len(delays), busy)


async def _run(
    engine: Engine,
    recorder: _Recorder,
    speech: Sequence[Samples],
    count: int,
    chunk_ms: int,
    seconds: float,
) -> float:
    """Feed all streams in real time; return the processor seconds used per second."""
    chunk = SAMPLE_RATE * chunk_ms // 1000
    pieces = _pieces(speech, chunk)
    engine.start()
    streams = [engine.open(Start(), lambda update: None) for _ in range(count)]
    starts = np.random.default_rng(0).integers(len(pieces), size=count).tolist()
    gc.collect()
    gc.disable()  # its pauses would count as the engine's
    try:
        return await _stream(engine, recorder, streams, pieces, starts, chunk_ms / 1000, seconds)
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


async def _stream(
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
            if turn * period < BEGIN * k / count:
                continue  # it has not begun
            engine.push(stream, pieces[(starts[k] + turn) % len(pieces)], due)
            if not k % 64:
                await asyncio.sleep(0)  # the engine hands results to this loop
        if time.perf_counter() - began > 3 * (WARM_UP + seconds):
            break  # hopelessly behind
    passed = time.perf_counter() - (began_measuring if warm else began)
    return (time.process_time() - used) / passed
