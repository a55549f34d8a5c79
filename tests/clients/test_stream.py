"""The Python client against a real server."""

import asyncio
import json
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import websockets
from numpy.typing import NDArray

import cortado
from cortado.clients import connection
from cortado.clients.connection import StreamError
from cortado.clients.iteration import Results
from cortado.clients.speech import stream
from cortado.clients.stream import connect
from cortado.model.captions import Word
from cortado.model.emission import Character
from cortado.server.protocol.messages import Endpoint, Start
from cortado.server.protocol.pcm import encode
from cortado.tests.clients.serving import Served, serving

Samples = NDArray[np.float32]


def pieces(samples: Samples, size: int) -> Iterator[Samples]:
    yield from (samples[at : at + size] for at in range(0, len(samples), size))


def collect(characters: Results[Character]) -> tuple[str, list[float]]:
    found = list(characters)
    return "".join(one.text for one in found), [one.time for one in found]


Answer = Callable[[websockets.ServerConnection], Awaitable[None]]


@asynccontextmanager
async def stub(answer: Answer) -> AsyncIterator[str]:
    """Run a server that answers each connection so; yield its address."""
    async with websockets.serve(answer, "127.0.0.1", 0, close_timeout=0.1) as server:
        [listener] = server.sockets
        yield f"ws://127.0.0.1:{listener.getsockname()[1]}"


def says(*messages: dict[str, Any]) -> Answer:
    """Return a server's answer of messages, whatever it is told."""

    async def answer(connection: websockets.ServerConnection) -> None:
        for message in messages:
            await connection.send(json.dumps(message))
        await connection.wait_closed()

    return answer


@pytest.fixture(scope="module")
def expected(transcribed: dict[str, Any]) -> tuple[str, list[float]]:
    characters = transcribed["characters"]
    return "".join(one["text"] for one in characters), [one["time"] for one in characters]


@pytest.mark.parametrize("size", [160, 4001, 10**9])
def test_a_stream_gives_the_text_and_the_times_of_the_whole_file(
    size: int, server: Served, spoken: Samples, expected: tuple[str, list[float]]
) -> None:
    assert collect(stream(pieces(spoken, size), server.stream).characters) == expected


def test_floats_say_the_same_as_integers(
    server: Served, spoken: Samples, expected: tuple[str, list[float]]
) -> None:
    chunks = pieces(spoken, 8000)
    assert collect(stream(chunks, server.stream, encoding="pcm_f32le").characters) == expected


def test_bytes_may_be_cut_anywhere_and_may_come_asynchronously(
    server: Served, spoken: Samples, expected: tuple[str, list[float]]
) -> None:
    data = encode(spoken, "pcm_s16le")

    async def chunks() -> AsyncIterator[bytes]:
        for at in range(0, len(data), 9999):
            await asyncio.sleep(0)
            yield data[at : at + 9999]

    assert collect(stream(chunks(), server.stream).characters) == expected


async def test_a_stream_of_another_rate_is_not_suspended_and_goes_on(server: Served) -> None:
    async with connect(server.stream, sample_rate=8000) as stream:
        with pytest.raises(ValueError, match="expected a stream at 16000 Hz, got one at 8000 Hz"):
            await stream.suspend()
        await stream.send(np.zeros(8000, np.float32))
        await stream.end()
        assert [chars async for chars in stream] == []
        assert stream.final
        assert stream.final.duration == 1


async def test_a_connection_gives_ready_then_characters_then_the_final_text(
    server: Served, spoken: Samples, expected: tuple[str, list[float]]
) -> None:
    async with connect(server.stream) as stream:
        assert stream.ready.step_ms == 40
        assert stream.ready.sample_rate == 16000
        assert stream.final is None
        await stream.send(spoken)
        await stream.end()
        with pytest.raises(StreamError, match="audio came after the end"):
            await stream.send(spoken)
        chars = [each async for each in stream]
        assert stream.final is not None
        assert (stream.final.text, stream.final.times) == expected
        assert "".join(each.text for each in chars) == stream.final.text
        assert stream.final.duration == pytest.approx(len(spoken) / 16000, abs=1e-3)
        positions = [each.position for each in chars]
        assert positions == sorted(positions)


async def test_an_empty_stream_has_an_empty_text(server: Served) -> None:
    async with connect(server.stream) as stream:
        await stream.end()
        assert [each async for each in stream] == []
        assert stream.final is not None
        assert (stream.final.text, stream.final.duration) == ("", 0)


def test_what_is_wrong_with_the_chunks_reaches_the_caller(server: Served, spoken: Samples) -> None:
    def broken() -> Iterator[Samples]:
        yield spoken[:8000]
        raise RuntimeError("the tape tore")

    with pytest.raises(RuntimeError, match="the tape tore"):
        list(stream(broken(), server.stream))


def test_what_was_said_before_the_audio_broke_off_is_heard(server: Served, spoken: Samples) -> None:
    def broken() -> Iterator[Samples]:
        yield spoken
        raise RuntimeError("the tape tore")

    heard = list[Word]()
    with pytest.raises(RuntimeError, match="the tape tore"):
        heard.extend(stream(broken(), server.stream))
    assert heard == list(stream(spoken, server.stream))


def test_an_error_does_not_wait_for_a_source_that_says_nothing() -> None:
    quiet = threading.Event()

    def silent() -> Iterator[Samples]:
        quiet.wait()
        yield np.zeros(0, np.float32)

    async def talk() -> None:
        async with stub(says(READY, BROKEN)) as url:
            await asyncio.wait_for(asyncio.to_thread(list, stream(silent(), url)), 20)

    try:
        with pytest.raises(StreamError, match="invalid_audio: broken"):
            asyncio.run(talk())
    finally:
        quiet.set()


def test_the_caller_s_event_loop_stays_its_own(server: Served) -> None:
    own = asyncio.new_event_loop()
    asyncio.set_event_loop(own)
    try:
        assert list(stream(np.zeros(160, np.float32), server.stream)) == []
        assert asyncio.get_event_loop_policy().get_event_loop() is own
        assert not own.is_closed()
    finally:
        asyncio.set_event_loop(None)
        own.close()


@pytest.mark.parametrize(
    ("name", "proxy"),
    [("http_proxy", "foo://127.0.0.1:9"), ("socks_proxy", "socks5://127.0.0.1:9")],
)
def test_a_proxy_that_cannot_be_used_is_one_clear_error(
    name: str, proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in ("all_proxy", "http_proxy", "https_proxy", "socks_proxy", "no_proxy"):
        monkeypatch.delenv(other, raising=False)
        monkeypatch.delenv(other.upper(), raising=False)
    monkeypatch.setenv(name, proxy)
    with pytest.raises(StreamError, match="by the environment's proxy"):
        list(stream(np.zeros(160, np.float32), "ws://192.0.2.1:9/v1/stream"))


def test_a_stream_can_be_left_at_any_word(server: Served, spoken: Samples) -> None:
    left = False

    def chunks() -> Iterator[Samples]:
        while not left:
            yield spoken

    for word in stream(chunks(), server.stream):
        assert word.text
        break
    left = True


LEAVES = """
import asyncio, sys
import cortado

async def main(after):
    async for word in cortado.stream(sys.argv[2], sys.argv[1]):
        print(word.text)
        await asyncio.sleep(after)
        LEAVE

for after in (0, 1):  # what comes next is on its way, or waits
    try:
        asyncio.run(main(after))
    except SystemExit:
        pass
"""


@pytest.mark.parametrize("leave", ["break", "return", "raise SystemExit"])
def test_an_asynchronous_loop_can_be_left_without_a_word_of_complaint(
    leave: str, server: Served, recording: Path
) -> None:
    script = LEAVES.replace("LEAVE", leave)
    command = [sys.executable, "-c", script, server.stream, str(recording)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert len(done.stdout.split()) == 2
    assert done.stderr == ""


async def test_who_waits_for_a_word_of_what_is_closed_waits_no_more() -> None:
    async def nothing() -> AsyncIterator[int]:
        await asyncio.Event().wait()
        yield 1

    results = aiter(Results(nothing))
    waiting = asyncio.ensure_future(anext(results, None))
    await asyncio.sleep(0)
    assert hasattr(results, "aclose")
    await results.aclose()
    assert await asyncio.wait_for(waiting, 10) is None
    assert await anext(results, None) is None


async def test_two_may_read_one_stream(server: Served, spoken: Samples, text: str) -> None:
    async with connect(server.stream) as one:
        await one.send(spoken)
        await one.end()

        async def read() -> int:
            return sum([len(chars.text) async for chars in one])

        async with asyncio.timeout(60):
            assert sum(await asyncio.gather(read(), read())) == len(text)


def test_a_file_of_another_rate_is_heard_as_it_is_here(
    server: Served, model: Path, spoken: Samples, tmp_path: Path
) -> None:
    path = tmp_path / "talk.wav"
    soundfile.write(path, spoken, 22_050)  # what a resampler gives is no 16 bits
    here = cortado.load(model).transcribe(path).words
    words = tuple(replace(word, confidence=round(word.confidence, 3)) for word in here)
    assert len(words) > 0
    assert tuple(stream(path, server.stream)) == words


def test_words_and_utterances_are_those_of_the_file(
    server: Served, model: Path, recording: Path
) -> None:
    heard = cortado.load(model).transcribe(recording)
    words = tuple(replace(word, confidence=round(word.confidence, 3)) for word in heard.words)
    assert tuple(stream(recording, server.stream)) == words
    [utterance] = stream(str(recording), server.stream).utterances
    assert (utterance.words, utterance.text) == (words, heard.text)
    assert (utterance.start, utterance.end) == (heard.words[0].start, heard.words[-1].end)


def test_utterances_have_texts_and_words_others_where_they_are_asked_for(
    server: Served, spoken: Samples
) -> None:
    pause = np.zeros(2 * 16_000, np.float32)
    twice = np.concatenate([spoken, pause, spoken])
    found = list(stream(twice, server.stream, silence_ms=400, alternatives=3).utterances)
    assert len(found) >= 2
    for each in found:
        assert each.texts[0].text == each.text
        assert len(each.texts) <= 3
    assert max(len(each.texts) for each in found) > 1
    assert any(word.alternatives for each in found for word in each.words)
    plain = list(stream(twice, server.stream, silence_ms=400).utterances)
    assert [each.text for each in plain] == [each.text for each in found]
    assert not any(each.texts for each in plain)


@pytest.mark.parametrize(
    ("audio", "message"),
    [
        (np.zeros(640, np.int16), r"samples \(N,\) as floats in \[-1, 1\), got \(640,\) int16"),
        (np.full(640, np.nan, np.float32), "finite samples, got NaN"),
    ],
)
def test_what_is_no_audio_is_refused_before_it_is_sent(
    server: Served, audio: Samples, message: str
) -> None:
    with pytest.raises(ValueError, match=f"expected {message}"):
        list(stream(audio, server.stream))


def test_what_can_be_no_audio_at_all_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="expected a file, a microphone or samples, got int"):
        stream(5)  # type: ignore[arg-type]


def test_bytes_of_any_kind_and_asynchronous_loops_do_as_well(
    server: Served, spoken: Samples, expected: tuple[str, list[float]]
) -> None:
    data = encode(spoken, "pcm_s16le")

    async def words(audio: bytes | bytearray | memoryview) -> list[str]:
        return [word.text async for word in stream(audio, server.stream)]

    for kind in (bytes, bytearray, memoryview):
        assert asyncio.run(words(kind(data))) == expected[0].split()
    with pytest.raises(ValueError, match="phrases as a list of texts, got the text 'wallet'"):
        list(stream(data, server.stream, phrases="wallet"))


def test_the_silence_that_ends_an_utterance_is_that_of_the_client(
    server: Served, spoken: Samples
) -> None:
    async def ends(silence_ms: int) -> list[float]:
        pause = np.zeros(3 * 16_000, np.float32)
        async with connect(server.stream, silence_ms=silence_ms) as opened:
            await opened.send(np.concatenate([spoken, pause]))
            await opened.end()
            found = [one async for one in opened.messages() if isinstance(one, Endpoint)]
            return [one.position for one in found]

    short, long = asyncio.run(ends(400)), asyncio.run(ends(5000))
    assert len(short) > len(long) == 0
    with pytest.raises(ValueError, match="silence_ms"):
        asyncio.run(ends(100))


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("ws://127.0.0.1:9/v1/stream", "unreachable"),
        ("{page}/v1/nothing", "refused"),
        ("{page}", "not_understood: .* end in /v1/stream"),  # it is Vosk's door
        ("{secure}/v1/stream", "refused: no https at .*is it ws:// there"),
    ],
)
def test_a_server_that_is_not_there_or_refuses_is_told_apart(
    url: str, code: str, server: Served
) -> None:
    page = server.page.replace("http://", "ws://")
    address = url.format(page=page, secure=page.replace("ws://", "wss://"))
    with pytest.raises(StreamError, match=code) as caught:
        list(stream([], address))
    assert caught.value.code == code.partition(":")[0]


def test_an_address_of_another_kind_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(ValueError, match="expected an address like ws://"):
        list(stream([], "http://127.0.0.1/"))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"sample_rate": 7000},
            "expected a sample_rate from 8000 to 192000 Hz, a whole number, got 7000",
        ),
        ({"silence_ms": 100}, "expected silence_ms to be greater than or equal to 300, got 100"),
        (
            {"encoding": "ogg"},
            "expected an encoding of samples (pcm_s16le, pcm_f32le, pcm_s24le, pcm_s32le, mulaw,"
            " alaw), got 'ogg'; a file of any kind is given by its path",
        ),
        ({"alternatives": 11}, "expected alternatives to be less than or equal to 10, got 11"),
        (
            {"phrases": [3]},
            "expected phrases: at most 100 texts of at most 100 characters, got 3",
        ),
    ],
)
def test_what_no_server_takes_is_refused_in_one_line_before_anything_is_sent(
    asked: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        list(stream([], "ws://127.0.0.1:9/v1/stream", **asked))


def test_the_errors_of_the_server_keep_their_code(
    model: Path, folder: Path, spoken: Samples
) -> None:
    flags = ("--max-streams", "1", "--idle-timeout-seconds", "6")

    async def talk(url: str) -> None:
        async with connect(url, keep=False) as first:
            with pytest.raises(StreamError, match="too_many_streams") as full:
                await anext(aiter(stream([spoken], url)))
            assert full.value.code == "too_many_streams"
            with pytest.raises(StreamError) as idle:
                await anext(aiter(first))
            assert idle.value.code == "idle_timeout"
            with pytest.raises(StreamError):
                await first.send(spoken)

    with serving(model, folder / "small.log", *flags) as small:
        asyncio.run(talk(small.stream))


READY = {
    "type": "ready",
    "session": "1",
    "model": "m",
    "sample_rate": 16_000,
    "encoding": "pcm_s16le",
    "step_ms": 40,
    "lookahead_ms": 110,
}
CHARS = {"type": "chars", "text": "a", "times": [0.1], "confidences": [1.0], "position": 0.2}
BROKEN = {"type": "error", "code": "invalid_audio", "message": "broken"}
NEWER: list[dict[str, Any]] = [
    {"type": "greeting"},
    READY | {"mood": "fine"},
    {"type": "speaker", "name": "one"},
    CHARS,
    {"type": "final", "text": "a", "times": [0.1], "confidences": [1.0], "duration": 0.2},
]


def test_messages_of_a_newer_server_are_ignored() -> None:
    async def texts() -> list[str]:
        async with stub(says(*NEWER)) as url, connect(url, keep=False) as stream:
            return [chars.text async for chars in stream]

    assert asyncio.run(texts()) == ["a"]


@pytest.mark.parametrize("is_alive", [True, False])
def test_only_a_server_of_which_nothing_comes_is_lost(
    is_alive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow one answers pings too late: they stand behind the audio that it has yet to read."""
    monkeypatch.setattr(connection, "PING_SECONDS", 0.05)
    monkeypatch.setattr(connection, "PONG_SECONDS", 2.0)
    lost = asyncio.Event()

    async def slow(socket: websockets.ServerConnection) -> None:
        await socket.recv()
        await socket.send(json.dumps(READY))
        socket.transport.pause_reading()  # pongs are sent as frames are read
        if not is_alive:
            await lost.wait()
            return
        for _ in range(30):
            await asyncio.sleep(0.1)
            await socket.send(json.dumps(CHARS))

    async def listen() -> int:
        async with stub(slow) as url:
            own, _ = await connection.open_connection(url, Start())
            heard = 0
            with suppress(StreamError):
                while True:
                    await own.receive()
                    heard += 1
            lost.set()
            await own.close()
            return heard

    assert asyncio.run(listen()) == (30 if is_alive else 0)
