"""Measure the delay of live streams over real websockets, at the pace of speech.

cortado serve &
python -m tests.clients.load MANIFEST [STREAMS] [URL]
"""

import asyncio
import math
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from clients.stream import connect
from model.audio import decode
from training.manifest import read

RATE = 16_000
PIECE = RATE // 10  # 100 ms
LONGEST = 12 * RATE
APART = 0.033  # seconds between the starts of two streams, so that their pieces do not coincide
URL = "ws://127.0.0.1:8000/v1/stream"


async def live(samples: NDArray[np.float32], url: str, wait: float) -> list[float]:
    """Return, for each message, the seconds since the audio that it rests on was sent."""
    await asyncio.sleep(wait)
    sent: list[float] = []
    delays = []
    async with connect(url) as stream:
        began = perf_counter()

        async def speak() -> None:
            for start in range(0, len(samples), PIECE):
                await asyncio.sleep(max(0.0, began + (start + PIECE) / RATE - perf_counter()))
                await stream.send(samples[start : start + PIECE])
                sent.append(perf_counter())
            await stream.end()

        speaking = asyncio.create_task(speak())
        async for chars in stream:
            now = perf_counter()
            if chars.position < len(samples) / RATE:  # not what the end itself brings out
                delays.append(now - sent[math.ceil(chars.position * RATE / PIECE) - 1])
        await speaking
    return delays


async def measure(manifest: Path, streams: int, url: str) -> list[float]:
    """Return the delays of all messages of `streams` streams at once, in seconds."""
    utterances = read(manifest)
    chosen = [utterances[k % len(utterances)] for k in range(streams)]
    recordings = [decode(utterance.audio)[:LONGEST] for utterance in chosen]
    started = [live(samples, url, k * APART) for k, samples in enumerate(recordings)]
    return [delay for delays in await asyncio.gather(*started) for delay in delays]


def main(manifest: str, streams: str = "30", url: str = URL) -> None:
    """Measure and write a line."""
    delays = 1000 * np.array(asyncio.run(measure(Path(manifest), int(streams), url)))
    p50, p95, p99 = np.percentile(delays, [50, 95, 99])
    line = f"{streams} streams, {len(delays)} messages: p50 {p50:.0f}, p95 {p95:.0f}, p99 {p99:.0f}"
    sys.stdout.write(line + " ms\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
