"""Whole recordings through a running server, over its real protocol, several at a time."""

import asyncio
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cortado.clients.stream import connect

Samples = NDArray[np.float32]

PIECE = 3_200  # samples a message: 200 ms


class Heard(NamedTuple):
    """A character and when it was heard."""

    text: str
    time: float  # seconds


def transcribe_served(
    url: str, recordings: Iterable[Samples], streams: int = 8
) -> Iterator[tuple[int, list[Heard]]]:
    """Yield (index, characters) of recordings at 16 kHz as they finish, `streams` at a time.

    Recordings are sent as fast as the server takes them.

    Raises:
        ValueError: `url` is no WebSocket address.
        StreamError: the server is not there, refuses, or ends a stream with an error.
    """
    waiting = enumerate(recordings)
    live: set[asyncio.Task[tuple[int, list[Heard]]]] = set()
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        while True:
            while len(live) < streams and (following := next(waiting, None)) is not None:
                live.add(loop.create_task(_one(url, *following)))
            if not live:
                return
            done, live = runner.run(_first(live))
            for task in done:
                yield task.result()


async def _first(
    live: set[asyncio.Task[tuple[int, list[Heard]]]],
) -> tuple[set[asyncio.Task[tuple[int, list[Heard]]]], set[asyncio.Task[tuple[int, list[Heard]]]]]:
    return await asyncio.wait(live, return_when=asyncio.FIRST_COMPLETED)


async def _one(url: str, index: int, samples: Samples) -> tuple[int, list[Heard]]:
    found: list[Heard] = []
    async with connect(url) as stream:

        async def send() -> None:
            for start in range(0, len(samples), PIECE):
                await stream.send(samples[start : start + PIECE])
            await stream.end()

        sending = asyncio.create_task(send())
        try:
            async for chars in stream:
                found += map(Heard, chars.text, chars.times)
            await sending
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
    return index, found
