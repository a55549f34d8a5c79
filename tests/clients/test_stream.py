"""The Python client against a real server."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cortado.clients.stream import StreamError, connect, transcribe_stream
from cortado.server.protocol.messages import Chars
from cortado.server.protocol.pcm import encode
from cortado.tests.clients.serving import Served, serving, transcribe

pytestmark = pytest.mark.timeout(600)  # servers start, perhaps beside other work

Samples = NDArray[np.float32]


def pieces(samples: Samples, size: int) -> Iterator[Samples]:
    yield from (samples[at : at + size] for at in range(0, len(samples), size))


async def collect(characters: AsyncIterator[Chars]) -> tuple[str, list[float]]:
    text, times = "", list[float]()
    async for chars in characters:
        text += chars.text
        times += chars.times
    return text, times


@pytest.fixture(scope="module")
def expected(model: Path, recording: Path) -> tuple[str, list[float]]:
    [found] = transcribe(model, recording)
    assert found["text"]
    return found["text"], [each["time"] for each in found["characters"]]


@pytest.mark.parametrize("size", [160, 4001, 10**9])
def test_a_stream_gives_the_text_and_the_times_of_the_whole_file(
    size: int, server: Served, spoken: Samples, expected: tuple[str, list[float]]
) -> None:
    got = asyncio.run(collect(transcribe_stream(server.stream, pieces(spoken, size))))
    assert got == expected


def test_floats_say_the_same_as_integers(
    server: Served, spoken: Samples, expected: tuple[str, list[float]]
) -> None:
    chunks = pieces(spoken, 8000)
    stream = transcribe_stream(server.stream, chunks, encoding="pcm_f32le")
    assert asyncio.run(collect(stream)) == expected


def test_bytes_may_be_cut_anywhere_and_may_come_asynchronously(
    server: Served, spoken: Samples, expected: tuple[str, list[float]]
) -> None:
    data = encode(spoken, "pcm_s16le")

    async def chunks() -> AsyncIterator[bytes]:
        for at in range(0, len(data), 9999):
            await asyncio.sleep(0)
            yield data[at : at + 9999]

    assert asyncio.run(collect(transcribe_stream(server.stream, chunks()))) == expected


def test_a_connection_gives_ready_then_characters_then_the_final_text(
    server: Served, spoken: Samples, expected: tuple[str, list[float]]
) -> None:
    async def talk() -> None:
        async with connect(server.stream) as stream:
            assert stream.ready.step_ms == 40
            assert stream.ready.sample_rate == 16000
            assert stream.final is None
            await stream.send(spoken)
            await stream.end()
            chars = [each async for each in stream]
            assert stream.final is not None
            assert (stream.final.text, stream.final.times) == expected
            assert "".join(each.text for each in chars) == stream.final.text
            assert stream.final.duration == pytest.approx(len(spoken) / 16000, abs=1e-3)
            positions = [each.position for each in chars]
            assert positions == sorted(positions)

    asyncio.run(talk())


def test_an_empty_stream_has_an_empty_text(server: Served, is_shipped: bool) -> None:
    async def talk() -> None:
        async with connect(server.stream) as stream:
            await stream.end()
            text = "".join([each.text async for each in stream])
            assert stream.final is not None
            assert (stream.final.text, stream.final.duration) == (text, 0)
            assert text == "" or not is_shipped  # random weights speak even in silence

    asyncio.run(talk())


def test_what_is_wrong_with_the_chunks_reaches_the_caller(server: Served, spoken: Samples) -> None:
    def broken() -> Iterator[Samples]:
        yield spoken[:8000]
        raise RuntimeError("the tape tore")

    with pytest.raises(RuntimeError, match="the tape tore"):
        asyncio.run(collect(transcribe_stream(server.stream, broken())))


def test_a_stream_can_be_left_at_any_character(server: Served, spoken: Samples) -> None:
    async def first() -> str:
        stream = transcribe_stream(server.stream, pieces(spoken, 1600))
        async for chars in stream:
            await stream.aclose()  # type: ignore[attr-defined]
            return chars.text
        return ""

    assert asyncio.run(first())


@pytest.mark.parametrize(
    ("url", "code"),
    [("ws://127.0.0.1:9/v1/stream", "unreachable"), ("{page}/v1/nothing", "refused")],
)
def test_a_server_that_is_not_there_or_refuses_is_told_apart(
    url: str, code: str, server: Served
) -> None:
    address = url.format(page=server.page.replace("http://", "ws://"))
    with pytest.raises(StreamError, match=code) as caught:
        asyncio.run(collect(transcribe_stream(address, [])))
    assert caught.value.code == code


def test_an_address_of_another_kind_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(ValueError, match="expected an address like ws://"):
        asyncio.run(collect(transcribe_stream("http://127.0.0.1/", [])))


def test_a_rate_that_no_server_takes_is_refused_before_anything_is_sent(server: Served) -> None:
    with pytest.raises(ValueError, match="sample_rate"):
        asyncio.run(collect(transcribe_stream(server.stream, [], sample_rate=100)))


def test_the_errors_of_the_server_keep_their_code(
    model: Path, folder: Path, spoken: Samples
) -> None:
    flags = ("--max-streams", "1", "--idle-timeout-seconds", "2")

    async def talk(url: str) -> None:
        async with connect(url) as first:
            with pytest.raises(StreamError, match="too_many_streams") as full:
                await collect(transcribe_stream(url, [spoken]))
            assert full.value.code == "too_many_streams"
            with pytest.raises(StreamError) as idle:
                await collect(aiter(first))
            assert idle.value.code == "idle_timeout"
            with pytest.raises(StreamError):
                await first.send(spoken)

    with serving(model, folder / "small.log", *flags) as small:
        asyncio.run(talk(small.stream))
