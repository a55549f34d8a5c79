"""A server is killed, and no character is lost or doubled: real processes and a real client."""

import asyncio
import json
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np
import websockets

from cortado.clients.stream import AHEAD_SECONDS, Stream, connect
from cortado.model.arrays import Samples
from cortado.model.checkpoint_reader import DEFAULT
from cortado.tests.clients.cutting import way_to
from cortado.tests.clients.serving import Served, serving
from cortado.tests.clients.speech import speech
from cortado.tests.server.running import END, Heard, cut, listened, pcm, rounded, say

RATE, PIECE = 16_000, 1600
SAVE_SECONDS = 0.5


async def speak(stream: Stream, samples: Samples, begun: asyncio.Event) -> tuple[str, list[float]]:
    """Speak at the pace of speech; return the text and its times."""

    async def send() -> None:
        for place in range(0, len(samples), PIECE):
            await stream.send(samples[place : place + PIECE])
            if place > len(samples) * 0.6:
                begun.set()
            await asyncio.sleep(PIECE / RATE)
        await stream.end()

    sending, text, times = asyncio.create_task(send()), "", list[float]()
    async for chars in stream:
        text, times = text + chars.text, times + chars.times
        held = stream._audio.end - stream._audio.start
        if stream.state == "open":  # what is not stored yet, on a machine that has other work
            assert held < 2 * RATE * (AHEAD_SECONDS + 20 * SAVE_SECONDS)
    await sending
    return text, times


async def begin(url: str, audio: bytes, stored: asyncio.Event) -> tuple[str, Heard]:
    """Speak until the server is gone; return the stream's token and what came."""
    messages = list[dict[str, Any]]()

    async def read() -> None:
        with suppress(websockets.ConnectionClosedError):
            async for frame in socket:
                messages.append(json.loads(frame))
                if messages[-1]["type"] == "acknowledged":
                    stored.set()

    async with websockets.connect(url, max_size=None) as socket:
        await socket.send('{"type":"start","keep":true}')
        reading = asyncio.create_task(read())
        for place in range(0, len(audio), 2 * PIECE):
            await socket.send(audio[place : place + 2 * PIECE])
            await asyncio.sleep(PIECE / RATE)
        await reading
    return messages[0]["token"], Heard(messages, socket.close_code)


async def go_on(url: str, token: str, heard: Heard, audio: bytes) -> Heard:
    """Go on at another server; return what came, before and after."""
    ends = heard.types.count("endpoint")
    hello = {"type": "resume", "token": token, "characters": len(heard.text), "utterances": ends}
    async with websockets.connect(url, max_size=None) as socket:
        await socket.send(json.dumps(hello))
        ready = json.loads(await socket.recv())
        stored = [one["received"] for one in heard.messages if one["type"] == "acknowledged"]
        assert ready["received"] >= stored[-1] > 0
        for piece in cut(audio[2 * ready["received"] :], 3):
            await socket.send(piece)
        await socket.send(END)
        return await listened(socket, *heard.messages)


def test_a_killed_server_loses_and_doubles_no_character(tmp_path: Path) -> None:
    samples = rounded(np.tile(speech(tmp_path)[1], 2))
    flags = ["--store", str(tmp_path / "streams.sqlite"), "--save-seconds", str(SAVE_SECONDS)]
    flags += ["--keep-seconds", "600"]

    def serve(name: str) -> Served:
        return stack.enter_context(serving(DEFAULT, tmp_path / name, *flags))

    async def all_of_it() -> None:
        one, other = serve("one"), serve("other")
        way = stack.enter_context(way_to(one.port))
        url = f"ws://127.0.0.1:{way.port}/v1/stream"
        half = pcm(samples[: len(samples) // 2])
        async with connect(url) as first, connect(url) as second:
            begun, stored = asyncio.Event(), asyncio.Event()
            clients = [asyncio.create_task(speak(each, samples, begun)) for each in (first, second)]
            moving = asyncio.create_task(begin(one.stream, half, stored))
            await begun.wait()
            await stored.wait()
            one.process.kill()
            token, heard = await moving
            moved = await go_on(other.stream, token, heard, pcm(samples))
            way.target = (await asyncio.to_thread(serve, "again")).port
            found = await asyncio.gather(*clients)
            assert first.restarts == second.restarts == []
            final = first.final
        assert final is not None
        pieces: list[str | bytes] = ['{"type":"start"}', *cut(pcm(samples), 1), END]
        whole = await asyncio.to_thread(say, other.stream, *pieces)
        assert whole.text.strip()
        assert found == [(whole.text, whole.times)] * 2
        assert (moved.text, moved.times) == (whole.text, whole.times)
        ends = [one for one in whole.messages if one["type"] == "endpoint"]
        assert [one for one in moved.messages if one["type"] == "endpoint"] == ends
        last = json.loads(final.model_dump_json(exclude_none=True))
        assert moved.messages[-1] == whole.messages[-1] == last

    with ExitStack() as stack:
        asyncio.run(all_of_it())
