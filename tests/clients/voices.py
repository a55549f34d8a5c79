"""Voices that speak part by part, so that a test can change the servers while they speak."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np

from cortado.clients.stream import Stream
from cortado.model.arrays import Samples

RATE, PIECE = 16_000, 1600
PARTS = 3
Said = tuple[str, list[float]]


class Voices:
    """Streams that speak a part when they are told to."""

    def __init__(self, streams: list[Stream], samples: Samples) -> None:
        self._streams, self._parts = streams, np.array_split(samples, PARTS)
        self._listening = [asyncio.create_task(self._listen(each)) for each in streams]

    async def _listen(self, stream: Stream) -> Said:
        text, times = "", list[float]()
        async for chars in stream:
            text, times = text + chars.text, times + chars.times
        assert stream.restarts == []  # no server had to begin anew
        return text, times

    async def _speak(self, stream: Stream, part: Samples) -> None:
        for place in range(0, len(part), PIECE):
            await stream.send(part[place : place + PIECE])
            await asyncio.sleep(PIECE / RATE)

    async def speak(self, part: int) -> None:
        """Speak a part at the pace of speech, all at once."""
        await asyncio.gather(*(self._speak(each, self._parts[part]) for each in self._streams))

    async def end(self) -> list[Said]:
        """End all streams; return the text of each and its times."""
        await asyncio.gather(*(each.end() for each in self._streams))
        return await asyncio.gather(*self._listening)


async def beside(speaking: Coroutine[Any, Any, None], change: Callable[[], None]) -> None:
    """Make a change while voices speak."""
    task = asyncio.create_task(speaking)
    await asyncio.sleep(PIECE / RATE * 5)
    await asyncio.to_thread(change)
    await task
