"""The Python client and streams that go on over another connection."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
import websockets
from numpy.typing import NDArray

from cortado.clients.stream import Stream, connect, resume
from cortado.server.protocol.messages import Chars
from cortado.tests.clients.serving import serving, transcribe

Samples = NDArray[np.float32]
PLACE = 20_001  # samples
KEY = ("--state-key", "a key that servers share")


async def heard(stream: Stream) -> list[tuple[str, float]]:
    """Return the characters that remain, with their times."""
    return [pair async for chars in stream for pair in zip(chars.text, chars.times, strict=True)]


@pytest.fixture(scope="module")
def expected(model: Path, recording: Path) -> list[tuple[str, float]]:
    [found] = transcribe(model, recording)
    return [(each["text"], each["time"]) for each in found["characters"]]


def test_a_suspended_stream_goes_on_in_another_process(
    model: Path, folder: Path, spoken: Samples, expected: list[tuple[str, float]]
) -> None:
    async def talk(url: str, other: str) -> list[tuple[str, float]]:
        async with connect(url) as stream:
            await stream.send(spoken[:PLACE])
            await stream.suspend()
            first = await heard(stream)
            assert stream.final is None
            assert stream.suspended is not None
        async with resume(other, stream.suspended) as rest:
            assert rest.ready.received == PLACE
            await rest.send(spoken[PLACE:])
            await rest.end()
            second = await heard(rest)
            assert rest.final is not None
            assert (rest.final.omitted, len(rest.final.text)) == (len(first), len(second))
            return first + second

    with (
        serving(model, folder / "one.log", *KEY) as one,
        serving(model, folder / "other.log", *KEY) as other,
    ):
        assert asyncio.run(talk(one.stream, other.stream)) == expected


READY = {
    "type": "ready",
    "session": "1",
    "model": "m",
    "sample_rate": 16_000,
    "encoding": "pcm_s16le",
    "step_ms": 40,
    "lookahead_ms": 110,
}
NEWER = [
    {"type": "greeting"},
    READY | {"mood": "fine"},
    {"type": "speaker", "name": "one"},
    {"type": "chars", "text": "a", "times": [0.1], "confidences": [1.0], "position": 0.2},
    {"type": "final", "text": "a", "times": [0.1], "confidences": [1.0], "duration": 0.2},
]


def test_messages_of_a_newer_server_are_ignored() -> None:
    async def answer(connection: websockets.ServerConnection) -> None:
        for message in NEWER:
            await connection.send(json.dumps(message))
        await connection.wait_closed()

    async def talk() -> AsyncIterator[Chars]:
        async with websockets.serve(answer, "127.0.0.1", 0) as server:
            [listener] = server.sockets
            url = f"ws://127.0.0.1:{listener.getsockname()[1]}"
            async with connect(url, keep=False) as stream:
                async for chars in stream:
                    yield chars

    async def texts() -> list[str]:
        return [chars.text async for chars in talk()]

    assert asyncio.run(texts()) == ["a"]
