"""Whole recordings through a running server, over its real protocol, several at a time."""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from cortado.clients.speech import stream
from cortado.model.emission import Character

Samples = NDArray[np.float32]


def transcribe_served(
    url: str, recordings: Iterable[Samples], streams: int = 8, phrases: Sequence[str] = ()
) -> Iterator[tuple[int, list[Character]]]:
    """Yield (index, characters) of recordings at 16 kHz as they finish, `streams` at a time.

    Each stream expects the `phrases`. Recordings are sent as fast as the server takes them.

    Raises:
        ValueError: `url` is no WebSocket address.
        StreamError: the server is not there, refuses, or ends a stream with an error.
    """
    waiting = enumerate(recordings)
    live = set[asyncio.Task[tuple[int, list[Character]]]]()
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        try:
            while True:
                while len(live) < streams and (following := next(waiting, None)) is not None:
                    live.add(loop.create_task(_one(url, *following, phrases)))
                if not live:
                    return
                done, _ = runner.run(asyncio.wait(live, return_when=asyncio.FIRST_COMPLETED))
                for task in done:
                    live.remove(task)
                    yield task.result()
        finally:
            runner.run(_cancelled(live))


async def _cancelled(tasks: Collection[asyncio.Task[object]]) -> None:
    """Let tasks end, those that have failed with the first one among them."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _one(
    url: str, index: int, samples: Samples, phrases: Sequence[str]
) -> tuple[int, list[Character]]:
    return index, [one async for one in stream(samples, url, phrases=phrases).characters]
