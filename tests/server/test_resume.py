"""Streams that go on over another connection: suspended, or lost."""

import asyncio
import base64
import json
from collections.abc import Iterator
from contextlib import nullcontext
from unittest.mock import create_autospec

import httpx
import numpy as np
import pytest
import websockets

from cortado.model.audio.resampler import Resampler
from cortado.model.backends.choice import load_recognizer
from cortado.model.backends.reference import ReferenceRecognizer
from cortado.model.checkpoint_reader import DEFAULT
from cortado.model.search.settings import MAX_WIDTH, beam_from_options
from cortado.model.streaming.live import LiveStream
from cortado.model.streaming.snapshot import Snapshot
from cortado.server.detached import DetachedStream
from cortado.server.protocol.messages import ErrorCode, ProtocolError, Resume, Start
from cortado.server.protocol.transcript import ResumePoint, Transcript
from cortado.server.resampling import StreamResampler
from cortado.server.signing import Signer
from cortado.tests.model.untrained import TINY, TINY_SEED, noise, untrained
from cortado.tests.server.running import (
    END,
    KEPT,
    START,
    Heard,
    Running,
    converse,
    listened,
    lose,
    pcm,
    resume,
    rounded,
    running,
    say,
    spelt,
    wait_for,
    written,
)

SPEECH = rounded(noise(1, 2.5))
SUSPEND = '{"type":"suspend"}'
KEY = "a key that servers share"


@pytest.fixture(scope="module")
def pair(online: ReferenceRecognizer) -> Iterator[tuple[Running, Running]]:
    """Two servers of one model and one key."""
    with running(online, state_key=KEY) as one, running(online, state_key=KEY) as other:
        yield one, other


def suspended(url: str, *frames: str | bytes) -> tuple[Heard, str]:
    """Return what a client heard until its stream was suspended, and the state."""
    heard = say(url, *frames, SUSPEND)
    assert (heard.types[-1], heard.close_code) == ("suspended", 1000)
    return heard, heard.messages[-1]["state"]


@pytest.mark.parametrize("place", [0, 317, 12_345, 20_480, 39_999])
def test_a_suspended_stream_goes_on_at_another_server_as_if_nothing_had_been(
    place: int, pair: tuple[Running, Running], online: ReferenceRecognizer
) -> None:
    first, state = suspended(pair[0].url, START, pcm(SPEECH[:place]))
    second = say(pair[1].url, resume(state=state), pcm(SPEECH[place:]), END)
    text, times = written(online, SPEECH)
    assert (first.text + second.text, first.times + second.times) == (text, times)
    assert second.messages[0]["received"] == first.messages[-1]["received"] == place
    final = second.messages[-1]
    assert (final["text"], final["omitted"]) == (second.text, len(first.text))
    assert final["duration"] == 2.5


@pytest.mark.parametrize("width", [None, MAX_WIDTH])
def test_the_largest_suspended_stream_fits_into_a_message(width: int | None) -> None:
    pytest.importorskip("silero_vad")
    model = load_recognizer(DEFAULT, "auto", beam_from_options(width, None))
    phrases = ["quokka" + "abcdefghijklmnopqrstuvwxy"[n] for n in range(25)]
    asked = {"type": "start", "phrases": phrases, "alternatives": 10, "silence_ms": 700}
    with running(model, vad=True) as server:
        _, state = suspended(server.url, json.dumps(asked), pcm(SPEECH))
        message = resume(state=state)
        most = httpx.get(server.page + "/v1/info").json()["limits"]["max_message_bytes"]
        assert len(message) < most == server.service.settings.max_message_bytes
        assert say(server.url, message, pcm(SPEECH), END).types[-1] == "final"
    with running(model, max_message_bytes=65_536) as server:
        assert server.service.settings.max_message_bytes == 65_536, "as it was set"


def test_a_stream_that_came_as_a_state_cannot_be_flushed(pair: tuple[Running, Running]) -> None:
    """Its phrases and its rules are in the state alone, so the next part would not have them."""
    _, state = suspended(pair[0].url, START, pcm(SPEECH))
    heard = say(pair[1].url, resume(state=state), '{"type":"flush"}')
    assert heard.error == ErrorCode.UNEXPECTED_MESSAGE
    assert "expected flush in a stream that was never suspended" in heard.messages[-1]["message"]


def test_a_stream_may_move_many_times(
    pair: tuple[Running, Running], online: ReferenceRecognizer
) -> None:
    heard, state = suspended(pair[0].url, START)
    text = heard.text
    for turn, piece in enumerate(np.split(SPEECH, [1, 700, 16_000, 16_001, 30_000])):
        heard, state = suspended(pair[turn % 2].url, resume(state=state), pcm(piece))
        text += heard.text
    heard = say(pair[0].url, resume(state=state), END)
    assert text + heard.text == written(online, SPEECH)[0]
    assert all(server.is_at_rest() for server in pair)


def test_a_suspended_stream_is_one_of_the_library(
    pair: tuple[Running, Running], online: ReferenceRecognizer
) -> None:
    first, state = suspended(pair[0].url, START, pcm(SPEECH[:20_000]))
    stream = LiveStream.resume(online, Signer(KEY).unsign(state))
    steps = [*stream.push(SPEECH[20_000:]), *stream.end()]
    rest = [one for step in steps for one in step.characters]
    assert first.text + spelt(rest)[0] == written(online, SPEECH)[0]


def turned(state: str) -> str:
    data = bytearray(base64.b64decode(state))
    data[len(data) // 2] ^= 1
    return base64.b64encode(data).decode()


def test_a_state_that_is_damaged_or_foreign_is_refused(
    pair: tuple[Running, Running], online: ReferenceRecognizer
) -> None:
    _, state = suspended(pair[0].url, START, pcm(SPEECH))
    for wrong in (
        turned(state),
        state[:-8],
        "",
        "no base64!",
        "é",
        base64.b64encode(b"1").decode(),
    ):
        assert say(pair[1].url, resume(state=wrong)).error == ErrorCode.INVALID_STATE
    with running(online) as stranger:  # of another key
        assert say(stranger.url, resume(state=state)).error == ErrorCode.INVALID_STATE
    with running(untrained(TINY, TINY_SEED + 1), state_key=KEY) as other:
        heard = say(other.url, resume(state=state))
        assert heard.error == ErrorCode.INVALID_STATE
        assert "expected a stream of the model" in heard.messages[-1]["message"]
    assert all(server.is_at_rest() for server in pair)


def is_kept(server: Running) -> bool:
    """Wait until the server has noticed that a connection is lost."""
    resumable = server.service.streams.resumable
    return wait_for(lambda: len(resumable) > 0 and not resumable.attached)


@pytest.mark.parametrize("rate", [16_000, 44_100])
def test_a_lost_stream_goes_on_where_the_server_stopped_hearing(
    rate: int, at_rest: Running, online: ReferenceRecognizer
) -> None:
    samples = SPEECH if rate == 16_000 else rounded(Resampler(16_000, rate).push(SPEECH))
    half = len(samples) // 2
    start = json.dumps({"type": "start", "sample_rate": rate, "keep": True})
    ready = asyncio.run(lose(at_rest.url, start, pcm(samples[:half]), 1))
    assert is_kept(at_rest)
    assert at_rest.is_at_rest()  # its slot is free meanwhile
    received = at_rest.service.streams.resumable._detached[ready["token"]].stream.point.received
    assert received <= half
    heard = say(at_rest.url, resume(token=ready["token"]), pcm(samples[received:]), END)
    assert heard.messages[0]["received"] == received
    assert heard.messages[0]["sample_rate"] == rate
    expected = say(at_rest.url, start, pcm(samples), END)
    assert (heard.text, heard.times) == (expected.text, expected.times)  # what was missed first
    assert heard.messages[-1] == expected.messages[-1]


def test_characters_that_a_client_has_are_not_told_again(
    at_rest: Running, online: ReferenceRecognizer
) -> None:
    ready = asyncio.run(lose(at_rest.url, KEPT, pcm(SPEECH), 4))
    assert is_kept(at_rest)
    heard = say(at_rest.url, resume(token=ready["token"], characters=4), END)
    assert heard.messages[0]["received"] == len(SPEECH)  # a message is read as a whole
    assert heard.text == written(online, SPEECH)[0][4:]
    assert heard.messages[-1]["text"][4:] == heard.text


def test_a_connection_that_only_seems_to_live_is_taken_over(
    at_rest: Running, online: ReferenceRecognizer
) -> None:
    async def talk() -> tuple[Heard, Heard]:
        async with websockets.connect(at_rest.url) as first:
            await first.send(KEPT)
            token = json.loads(await first.recv())["token"]
            await first.send(pcm(SPEECH))
            await first.recv()  # characters: the audio has come
            second = await converse(at_rest.url, resume(token=token), END)
            return await listened(first), second

    first, second = asyncio.run(talk())
    assert first.error == ErrorCode.TAKEN_OVER
    assert second.text == written(online, SPEECH)[0]


def test_streams_that_cannot_be_resumed_are_refused_and_counted(
    online: ReferenceRecognizer,
) -> None:
    with running(online) as server:
        assert say(server.url, resume(state="AAAA")).error == ErrorCode.INVALID_STATE
        assert say(server.url, resume(token="none")).error == ErrorCode.UNKNOWN_STREAM
        token = asyncio.run(lose(server.url, KEPT, pcm(SPEECH)))["token"]
        assert is_kept(server)
        for name in ("characters", "utterances"):
            wrong = say(server.url, resume(token=token, **{name: 10**6}))
            assert wrong.error == ErrorCode.INVALID_STATE
            assert f"{name}, got 1000000" in wrong.messages[-1]["message"]
        assert say(server.url, resume(token=token), END).close_code == 1000
        assert say(server.url, resume(token=token)).error == ErrorCode.UNKNOWN_STREAM
        for reason, counted in (("invalid_state", 3), ("unknown_stream", 2)):
            assert server.metric("cortado_connections_refused_total", reason=reason) == counted


@pytest.mark.parametrize(
    ("characters", "utterances", "is_possible"),
    [(3, 1, True), (3, 2, False), (4, 2, True), (4, 3, False), (6, 4, True), (6, 10**6, False)],
)
def test_a_client_of_a_killed_server_may_have_an_utterance_more_for_each_character(
    characters: int, utterances: int, is_possible: bool
) -> None:
    transcript = Transcript(100)
    transcript.add("abcd", [0.5] * 4, [1.0] * 4)
    is_whole = characters <= 4  # all is written again; its last utterance may not have ended yet
    point = ResumePoint(Start(), 8000, transcript, 0.5, is_whole)
    snapshot = create_autospec(Snapshot, instance=True, utterances=1)
    saved = DetachedStream(point, snapshot, StreamResampler(16_000))
    claim = Resume(token="a token", characters=characters, utterances=utterances)
    with nullcontext() if is_possible else pytest.raises(ProtocolError, match="expected at most"):
        saved.check(claim)


def test_streams_are_kept_for_a_while_and_the_newest_few(online: ReferenceRecognizer) -> None:
    with running(online, keep_streams=2) as server:
        tokens = []
        for _ in range(3):
            tokens.append(asyncio.run(lose(server.url, KEPT, b""))["token"])
            assert server.is_at_rest()
        assert list(server.service.streams.resumable._detached) == tokens[1:]
    with running(online, keep_seconds=0.5) as server:
        token = asyncio.run(lose(server.url, KEPT, b""))["token"]
        assert server.is_at_rest()
        assert wait_for(lambda: not server.service.streams.resumable)
        assert say(server.url, resume(token=token)).error == ErrorCode.UNKNOWN_STREAM
    with running(online, keep_seconds=0) as server:
        assert "token" not in say(server.url, KEPT, END).messages[0]


def test_a_stream_that_nobody_lets_in_is_still_kept(online: ReferenceRecognizer) -> None:
    async def talk(url: str) -> tuple[Heard, Heard]:
        ready = await lose(url, KEPT, pcm(SPEECH[:8000]))
        while server.service.streams.resumable.attached:
            await asyncio.sleep(0.01)
        async with websockets.connect(url) as other:
            await other.send(START)
            await other.recv()
            refused = await converse(url, resume(token=ready["token"]), END)
            await other.send(END)
            await listened(other)
        return refused, await converse(url, resume(token=ready["token"]), END)

    with running(online, max_streams=1) as server:
        refused, resumed = asyncio.run(talk(server.url))
    assert refused.error == ErrorCode.TOO_MANY_STREAMS
    assert resumed.close_code == 1000
