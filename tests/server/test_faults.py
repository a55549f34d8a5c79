"""Faults of lines and clocks, beside streams that feel nothing of them."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
import websockets

from cortado.model.backends.reference import ReferenceRecognizer
from cortado.server.protocol import pace
from cortado.server.protocol.messages import ErrorCode
from cortado.tests.model.untrained import noise
from cortado.tests.server.running import (
    END,
    KEPT,
    PATIENCE,
    START,
    Heard,
    Running,
    converse,
    listened,
    pcm,
    resume,
    rounded,
    running,
    say,
    written,
)

SPEECH = noise(3, 1.0)


def expected(online: ReferenceRecognizer) -> tuple[str, list[float]]:
    text, times = written(online, rounded(SPEECH))
    assert text
    return text, times


async def slowly(url: str) -> Heard:
    """Speak at half the speed of speech, 20 ms at a time."""
    audio = pcm(SPEECH)
    async with websockets.connect(url) as connection:
        await connection.send(START)
        reading = asyncio.create_task(listened(connection))
        for place in range(0, len(audio), 640):
            await connection.send(audio[place : place + 640])
            await asyncio.sleep(0.04)
        await connection.send(END)
        return await reading


def test_a_slow_sender_has_its_text_and_holds_nobody_up(
    at_rest: Running, online: ReferenceRecognizer
) -> None:
    async def all_of_them() -> tuple[Heard, list[Heard]]:
        slow, others = asyncio.create_task(slowly(at_rest.url)), []
        while not slow.done():
            others.append(await converse(at_rest.url, START, pcm(SPEECH), END))
        return await slow, others

    slow, others = asyncio.run(all_of_them())
    assert {(each.text, tuple(each.times)) for each in [slow, *others]} == {
        (text, tuple(times)) for text, times in [expected(online)]
    }


def test_who_sends_faster_than_allowed_is_read_more_slowly(
    online: ReferenceRecognizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "BURST_SECONDS", 0.2)
    with running(online, max_speed=0.4) as server:
        began = time.monotonic()
        heard = say(
            server.url, START, *[pcm(SPEECH)[k : k + 6400] for k in range(0, 32_000, 6400)], END
        )
        # the last of five messages waits for those before it
        assert time.monotonic() - began > (0.8 - 0.2) / 0.4
    assert (heard.text, heard.times) == expected(online)


def test_a_line_that_is_dead_without_a_word_ends_its_stream_which_goes_on_elsewhere(
    online: ReferenceRecognizer,
) -> None:
    """Half open: nothing comes and nothing is read, not even a close."""
    audio = pcm(SPEECH)
    half = len(audio) // 4 * 2

    async def all_of_it(server: Running) -> tuple[list[Heard], Heard, Heard]:
        dead = await websockets.connect(server.url)
        await dead.send(KEPT)
        await dead.send(audio[:half])
        token = json.loads(await dead.recv())["token"]
        dead.transport.pause_reading()
        others = [await converse(server.url, START, audio, END)]
        while not len(server.service.streams.resumable):
            others.append(await converse(server.url, START, audio, END))
        after = await converse(server.url, resume(token=token), audio[half:], END)
        dead.transport.resume_reading()
        before = await listened(dead)
        return others, before, after

    with running(online, idle_timeout_seconds=1.0) as server:
        others, before, after = asyncio.run(asyncio.wait_for(all_of_it(server), PATIENCE))
        assert server.is_at_rest()
    text, times = expected(online)
    assert others
    assert {each.text for each in others} == {text}
    assert before.error in (None, ErrorCode.IDLE_TIMEOUT)
    assert (after.text, after.times) == (text, times)


@pytest.mark.parametrize("jump", [1e6, -1e6])
def test_the_wall_clock_does_not_matter(
    jump: float, online: ReferenceRecognizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audio, wall = pcm(SPEECH), time.time
    third = len(audio) // 6 * 2

    async def all_of_it(url: str) -> str:
        async with websockets.connect(url) as connection:
            await connection.send(KEPT)
            token = json.loads(await connection.recv())["token"]
            await connection.send(audio[:third])
            await _acknowledged(connection, third // 2)
            monkeypatch.setattr(time, "time", lambda: wall() + jump)
            await connection.send(audio[third : 2 * third])
            await _acknowledged(connection, third)
            connection.transport.abort()
        return (await converse(url, resume(token=token), audio[2 * third :], END)).text

    where = str(tmp_path / "streams.sqlite")
    with running(online, store=where, save_seconds=0.1) as server:
        text = asyncio.run(asyncio.wait_for(all_of_it(server.url), PATIENCE))
    assert text == expected(online)[0]


async def _acknowledged(connection: websockets.ClientConnection, samples: int) -> None:
    """Read until so many samples are stored."""
    message: dict[str, Any] = {"type": None}
    while message["type"] != "acknowledged" or message["received"] < samples:
        message = json.loads(await connection.recv())
