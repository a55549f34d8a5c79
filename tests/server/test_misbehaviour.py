"""What clients do wrong ends their own conversation, with a code, and nobody else's."""

import asyncio
import gc
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection
from itertools import count
from typing import Any

import httpx
import numpy as np
import pytest
import websockets

from cortado.model.backends.reference import ReferenceRecognizer
from cortado.server.doors.own import Own
from cortado.server.protocol.errors import REASONS
from cortado.server.protocol.messages import ErrorCode
from cortado.server.timeline import Timeline
from cortado.tests.model.untrained import noise
from cortado.tests.server.doors.sound import wav
from cortado.tests.server.running import (
    END,
    PATIENCE,
    START,
    Fragile,
    Heard,
    Running,
    converse,
    pcm,
    rounded,
    running,
    say,
    wait_for,
    written,
)

FLOATS = '{"type":"start","encoding":"pcm_f32le"}'
NAN = np.array([0.1, np.nan], "<f4").tobytes()
SPEECH = noise(3, 1.0)

WRONG = {  # at each stage of a message; `protocol/` has the others
    ("not json",): ErrorCode.INVALID_MESSAGE,
    (FLOATS, NAN[:5], NAN[5:]): ErrorCode.INVALID_AUDIO,
    (START, bytes(8001)): ErrorCode.MESSAGE_TOO_BIG,
}


@pytest.fixture(scope="module")
def strict(online: ReferenceRecognizer) -> Iterator[Running]:
    """A server of small numbers."""
    with running(online, max_message_bytes=8000, max_streams=2, max_connections=3) as server:
        yield server


def refused(heard: Heard, code: ErrorCode) -> bool:
    """Return whether a client was told of `code`, in words, and then closed upon."""
    return (
        heard.error == code
        and heard.close_code == REASONS[code].close
        and heard.messages[-1]["message"].startswith("expected ")
    )


@pytest.mark.parametrize(("frames", "code"), WRONG.items())
def test_a_wrong_message_is_refused_with_its_code(
    frames: tuple[str | bytes, ...], code: ErrorCode, strict: Running
) -> None:
    before = strict.metric("cortado_errors_total", code=code)
    assert refused(say(strict.url, *frames), code)
    assert strict.metric("cortado_errors_total", code=code) == before + 1
    assert strict.is_at_rest()


def test_a_client_that_falls_silent_is_closed(online: ReferenceRecognizer) -> None:
    with running(online, idle_timeout_seconds=4.0) as server:
        heard = say(server.url, START, pcm(SPEECH), b"")
        assert refused(heard, ErrorCode.IDLE_TIMEOUT)
        assert heard.text  # what was decided is not lost
        assert server.is_at_rest()


def test_one_stream_too_many_is_refused_and_counted(strict: Running) -> None:
    async def three() -> Heard:
        async with (
            websockets.connect(strict.url) as first,
            websockets.connect(strict.url) as second,
        ):
            for connection in (first, second):
                await connection.send(START)
                await connection.recv()
            return await converse(strict.url, START)

    name, reason = "cortado_connections_refused_total", "too_many_streams"
    before = strict.metric(name, reason=reason)
    heard = asyncio.run(three())
    assert refused(heard, ErrorCode.TOO_MANY_STREAMS)
    assert heard.messages[-1]["retry_after"] == 5.0
    assert strict.metric(name, reason=reason) == before + 1
    assert strict.is_at_rest()


def test_one_connection_too_many_is_answered_503(strict: Running) -> None:
    async def four() -> int:
        async with (
            websockets.connect(strict.url),
            websockets.connect(strict.url),
            websockets.connect(strict.url),
        ):
            with pytest.raises(websockets.InvalidStatus) as caught:
                await websockets.connect(strict.url)
            return caught.value.response.status_code

    assert asyncio.run(four()) == 503
    assert strict.is_at_rest()


def test_a_foreign_page_is_refused(at_rest: Running) -> None:
    with pytest.raises(websockets.InvalidStatus) as caught:
        say(at_rest.url, origin="https://evil.example")
    assert caught.value.response.status_code == 403
    assert at_rest.metric("cortado_connections_refused_total", reason="origin") >= 1
    assert say(at_rest.url, START, END, origin=at_rest.page).close_code == 1000


def test_a_client_may_vanish_at_any_moment(at_rest: Running) -> None:
    async def vanish(*frames: str | bytes) -> None:
        connection = await websockets.connect(at_rest.url)
        for frame in frames:
            await connection.send(frame)
        connection.transport.abort()

    async def all_of_them() -> None:
        await asyncio.gather(
            vanish(), vanish(START), vanish(START, pcm(SPEECH)), vanish(START, pcm(SPEECH), END)
        )

    before = at_rest.metric("cortado_streams_total", ending="disconnected")
    asyncio.run(all_of_them())
    assert at_rest.is_at_rest()
    assert at_rest.metric("cortado_streams_total", ending="disconnected") > before


@pytest.mark.parametrize(
    ("address", "fields"),
    [
        ("/v1/listen", {}),
        ("/v1/audio/transcriptions", {}),
        ("/v1/audio/transcriptions", {"stream": "true"}),
    ],
)
def test_a_file_is_left_once_its_client_has_hung_up(
    address: str, fields: dict[str, str], at_rest: Running, caplog: pytest.LogCaptureFixture
) -> None:
    seconds = 600.0
    file = wav(np.tile(SPEECH, int(seconds)))
    body: dict[str, Any] = {"content": file}
    if address.endswith("transcriptions"):
        body = {"files": {"file": ("a.wav", file)}, "data": fields}
    request = httpx.Request("POST", at_rest.page + address, **body)
    before = at_rest.metric("cortado_audio_seconds_total")
    with closing(HTTPConnection(request.url.host, request.url.port)) as connection:
        connection.request("POST", address, request.read(), dict(request.headers))
        assert wait_for(lambda: at_rest.metric("cortado_audio_seconds_total") > before)
        if fields:  # the answer has begun, and waits for text
            connection.getresponse().read(1)
    assert at_rest.is_at_rest()
    assert at_rest.metric("cortado_audio_seconds_total") < before + seconds
    gc.collect()  # which tells of tasks that nobody has ended
    assert [one for one in caplog.records if one.levelno >= logging.ERROR] == []


def test_a_slow_reader_is_given_up_and_blocks_nobody(online: ReferenceRecognizer) -> None:
    async def both(server: Running) -> Heard:
        narrow = socket.socket()
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        narrow.connect(("127.0.0.1", int(server.page.rpartition(":")[2])))
        slow = await websockets.connect(server.url, sock=narrow)
        slow.transport.pause_reading()
        await slow.send(START)
        sending = asyncio.create_task(slow.send(pcm(np.tile(SPEECH, 60))))
        while not server.metric("cortado_streams_total", ending="slow_client"):
            heard = await converse(server.url, START, pcm(SPEECH), END)
        await asyncio.gather(sending, return_exceptions=True)
        slow.transport.abort()
        return heard

    limits = {"outbox_characters": 20, "send_timeout_seconds": 0.5, "max_message_bytes": 2**22}
    with running(online, **limits) as server:
        heard = asyncio.run(asyncio.wait_for(both(server), PATIENCE))
        assert (heard.text, heard.times) == written(online, rounded(SPEECH))
        assert server.is_at_rest()


def faults(caplog: pytest.LogCaptureFixture) -> list[type[BaseException]]:
    """Return the kinds of the exceptions that were logged."""
    return [one.exc_info[0] for one in caplog.records if one.exc_info and one.exc_info[0]]


@pytest.mark.parametrize(
    ("broken", "told", "fault"),
    [
        (Timeline.place, ErrorCode.INTERNAL_ERROR, KeyError),
        (Own.write, None, KeyError),
        (Own.write, None, RuntimeError),
    ],
)
def test_a_fault_in_what_one_client_is_told_is_logged_and_ends_its_stream_alone(
    broken: Callable[..., object],
    told: ErrorCode | None,
    fault: type[Exception],
    at_rest: Running,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails(this: object, *given: object) -> object:
        if next(times) == 2:
            raise fault("a fault")
        return broken(this, *given)

    times = count()
    monkeypatch.setattr(Timeline if told else Own, broken.__name__, fails)
    wrong = say(at_rest.url, START, pcm(SPEECH), END)
    assert (wrong.error, wrong.close_code) == (told, 1011)
    assert faults(caplog) == [fault]
    lines = {"session failed", "stream failed"}
    assert wait_for(lambda: lines <= set(caplog.messages))  # the socket may be closed before
    heard = say(at_rest.url, START, pcm(SPEECH), END)
    assert (heard.types[-1], heard.close_code) == ("final", 1000)
    assert at_rest.is_at_rest()


def test_a_step_that_fails_ends_its_streams_and_no_others(
    online: ReferenceRecognizer, caplog: pytest.LogCaptureFixture
) -> None:
    with running(Fragile(online.recognizer)) as server:
        loud = say(server.url, START, np.full(1000, 32767, "<i2").tobytes())
        assert loud.error == ErrorCode.INTERNAL_ERROR
        assert loud.close_code == 1011
        assert faults(caplog) == [RuntimeError]
        assert server.is_at_rest()
        assert server.service.ready
        heard = say(server.url, START, pcm(SPEECH), END)
        assert (heard.text, heard.times) == written(online, rounded(SPEECH))
