"""Delays of live streams over websockets, at the pace of speech."""

import asyncio
import math
from collections.abc import Sequence
from time import perf_counter

import numpy as np

from cortado.clients.bench.served import Served
from cortado.clients.bench.streams.delays import BEGIN, WARM_UP, Point, percentiles
from cortado.clients.connection import Connection, open_connection
from cortado.model.arrays import Samples
from cortado.model.features.framing import SAMPLE_RATE
from cortado.model.progress import Progress
from cortado.server.protocol.messages import Chars, End, Final, Start
from cortado.server.protocol.pcm import encode

AT_ONCE = 50  # connections that are opened at a time


def measure(
    server: Served,
    speech: Sequence[Samples],
    *,
    backend: str,
    streams: int,
    chunk_ms: int,
    seconds: float,
    progress: Progress,
) -> Point:
    """Return the delays of `streams` live streams: from sending the audio to its characters.

    Args:
        server: that hears them.
        speech: recordings; each stream speaks one after another, from one of its own on.
        backend: of the server, by its name.
        streams: how many at once; their chunks are spread over the time evenly.
        chunk_ms: audio in a message.
        seconds: to measure, after WARM_UP.
        progress: called with the number of streams that are connected.
    """
    delays, used = asyncio.run(_speak(server, speech, streams, chunk_ms, seconds, progress))
    busy = used / seconds
    figures = percentiles(np.array(delays))
    return Point("websockets", backend, chunk_ms, streams, seconds, *figures, len(delays), busy)


async def _speak(
    server: Served,
    speech: Sequence[Samples],
    streams: int,
    chunk_ms: int,
    seconds: float,
    progress: Progress,
) -> tuple[list[float], float]:
    """Return the delays of messages of characters, and the server's processor seconds meanwhile."""
    joined = np.concatenate(list(speech))
    needed = round((WARM_UP + seconds) * SAMPLE_RATE)
    joined = np.tile(joined, 1 + needed // len(joined) + 1)
    starts = np.random.default_rng(0).integers(len(joined) - needed, size=streams)
    ready, everybody = asyncio.Event(), asyncio.Semaphore(AT_ONCE)
    connected = 0
    began = 0.0

    async def one(k: int) -> list[float]:
        nonlocal connected
        async with everybody:
            connection, _ = await open_connection(server.url, Start())
        connected += 1
        progress("connected", connected, streams)
        try:
            await ready.wait()
            period = chunk_ms / 1000
            later = round(BEGIN * k / streams / period) * period
            samples = joined[starts[k] : starts[k] + needed - round(later * SAMPLE_RATE)]
            begins = began + later + k / streams * period
            return await _talk(connection, samples, begins, WARM_UP - later, chunk_ms)
        finally:
            await connection.close()

    tasks = [asyncio.create_task(one(k)) for k in range(streams)]
    try:
        while connected < streams:
            await asyncio.sleep(0.05)
            for task in tasks:
                if task.done():
                    task.result()  # what went wrong
        began = perf_counter() + 0.1
        ready.set()
        await asyncio.sleep(began + WARM_UP - perf_counter())
        used = server.processor_seconds()
        delays = [delay for delays in await asyncio.gather(*tasks) for delay in delays]
        return delays, server.processor_seconds() - used
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _talk(
    connection: Connection, samples: Samples, began: float, counted: float, chunk_ms: int
) -> list[float]:
    """Speak; return the delays from `counted` seconds on."""
    piece = SAMPLE_RATE * chunk_ms // 1000
    sent: list[float] = []
    delays: list[float] = []

    async def speak() -> None:
        for start in range(0, len(samples), piece):
            await asyncio.sleep(max(0.0, began + (start + piece) / SAMPLE_RATE - perf_counter()))
            await connection.send(encode(samples[start : start + piece], "pcm_s16le"))
            sent.append(perf_counter())
        await connection.send(End().model_dump_json())

    speaking = asyncio.create_task(speak())
    try:
        while not isinstance(message := await connection.receive(), Final):
            now = perf_counter()
            if not isinstance(message, Chars):
                continue
            # not what the end brings out
            if counted <= message.position < len(samples) / SAMPLE_RATE:
                delays.append(now - sent[math.ceil(message.position * SAMPLE_RATE / piece) - 1])
        await speaking
    finally:
        speaking.cancel()
        await asyncio.gather(speaking, return_exceptions=True)
    return delays


async def first_character(url: str, samples: Samples) -> float | None:
    """Speak at once, as a file; return when (`perf_counter`) the first character came."""
    connection, _ = await open_connection(url, Start())
    try:
        for start in range(0, len(samples), SAMPLE_RATE):
            await connection.send(encode(samples[start : start + SAMPLE_RATE], "pcm_s16le"))
        await connection.send(End().model_dump_json())
        while not isinstance(message := await connection.receive(), Final):
            if isinstance(message, Chars):
                return perf_counter()
    finally:
        await connection.close()
    return None
