"""Deepgram's published SDK, of which only the address is changed."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import websockets

from cortado.model.backends.choice import load_recognizer
from cortado.model.backends.reference import ReferenceRecognizer
from cortado.model.search.settings import MAX_WAIT_MS, beam_from_options
from cortado.model.streaming.recordings import transcribe
from cortado.server.keys import KeyFile
from cortado.server.sample import speech
from cortado.tests.model.untrained import noise
from cortado.tests.server.doors.sound import encoded, wav
from cortado.tests.server.running import (
    PATIENCE,
    Running,
    pcm,
    rounded,
    running,
    say,
    spelt,
    wait_for,
)

deepgram = pytest.importorskip("deepgram", reason="needs the extra dev")

# The SDK imports names that websockets is about to drop.
pytestmark = pytest.mark.filterwarnings("ignore:websockets.*deprecated:DeprecationWarning")

SPEECH = noise(1, 2.5)
LIVE = {"model": "nova-3", "encoding": "linear16", "sample_rate": 16_000}


@contextmanager
def client(server: Running, **credentials: str) -> Iterator[Any]:
    from deepgram.environment import DeepgramClientEnvironment

    live = server.page.replace("http", "ws", 1)
    where = DeepgramClientEnvironment(
        base=server.page, production=live, agent=live, agent_rest=server.page
    )
    with httpx.Client(timeout=PATIENCE) as http:
        yield deepgram.DeepgramClient(
            **(credentials or {"api_key": "a key"}), environment=where, httpx_client=http
        )


@pytest.fixture
def text(online: ReferenceRecognizer) -> str:
    return spelt(transcribe(online, rounded(SPEECH)))[0].strip()


def listen(
    server: Running,
    *frames: Any,
    access_token: str | None = None,
    pause: float = 0.0,
    **options: Any,
) -> list[Any]:
    """Send frames, methods by name among them, and return all messages to the close.

    Wait `pause` seconds after each.
    """
    messages: list[Any] = []
    credentials = {"access_token": access_token} if access_token else {}
    with (
        client(server, **credentials) as sdk,
        sdk.listen.v1.connect(**{**LIVE, **options}) as connection,
    ):
        connection.on(deepgram.core.events.EventType.MESSAGE, messages.append)
        reading = threading.Thread(target=connection.start_listening)
        reading.start()
        for frame in frames:
            getattr(connection, frame)() if isinstance(frame, str) else connection.send_media(frame)
            time.sleep(pause)
        reading.join(PATIENCE)
        assert not reading.is_alive()
    return messages


def finals(messages: list[Any]) -> str:
    parts = [
        one.channel.alternatives[0].transcript
        for one in messages
        if one.type == "Results" and one.is_final
    ]
    return " ".join(part for part in parts if part)


def chunks(data: bytes) -> Iterator[bytes]:
    return (data[k : k + 6400] for k in range(0, len(data), 6400))


def test_live_speech_is_written(at_rest: Running, text: str) -> None:
    messages = listen(at_rest, *chunks(pcm(SPEECH)), "send_close_stream")
    assert finals(messages) == text
    for one in messages:  # version 5 of the SDK needs all that this one expects
        type(one).model_validate(one.model_dump(exclude_none=True))
    metadata = messages[-1]
    assert (metadata.type, metadata.duration, metadata.channels) == ("Metadata", 2.5, 1)
    words = [
        word
        for one in messages
        if one.type == "Results"
        for word in one.channel.alternatives[0].words
    ]
    assert [word.word for word in words] == text.split()
    assert all(word.start < word.end for word in words)


def test_finalize_writes_the_rest_and_the_stream_goes_on(at_rest: Running, text: str) -> None:
    twice = [*chunks(pcm(SPEECH)), "send_finalize"]
    messages = listen(at_rest, *twice, "send_keep_alive", *twice, "send_close_stream")
    asked = [one for one in messages if one.type == "Results" and one.from_finalize]
    assert len(asked) == 2
    assert finals(messages).split() == text.split() * 2
    ends = [round(one.start + one.duration, 3) for one in asked]
    assert ends == [2.5, 5.0]
    assert messages[-1].duration == 5.0


def test_no_word_contradicts_an_end_of_speech_however_long_words_are_weighed() -> None:
    patient = load_recognizer(beam=beam_from_options(None, MAX_WAIT_MS))
    said = pcm(np.concatenate([speech(), np.zeros(32_000, np.float32)] * 2))
    options: dict[str, Any] = {"utterance_end_ms": 1000, "endpointing": False}
    with running(patient) as server:
        messages = listen(server, *chunks(said), "send_close_stream", pause=0.03, **options)
    finished = [one for one in messages if one.type == "Results" and one.is_final]
    words = [word for one in finished for word in one.channel.alternatives[0].words]
    ends = [one.last_word_end for one in messages if one.type == "UtteranceEnd"]
    assert len(ends) >= 2
    # a word's end is that of its last letter, to a frame
    assert [(end, word) for end in ends for word in words if end + 0.05 < word.end < end + 1] == []


def test_a_file_is_written(at_rest: Running, text: str) -> None:
    with client(at_rest) as sdk:
        answer = sdk.listen.v1.media.transcribe_file(
            request=wav(SPEECH), model="nova-3", utterances=True, paragraphs=True
        )
    [channel] = answer.results.channels
    assert channel.alternatives[0].transcript == text
    assert answer.metadata.duration == 2.5
    assert [one["parameter"] for one in answer.metadata.warnings] == ["model"]
    assert " ".join(one.transcript for one in answer.results.utterances) == text
    assert channel.alternatives[0].paragraphs.transcript == text


def test_a_file_that_is_none_is_a_clear_error(at_rest: Running) -> None:
    with client(at_rest) as sdk, pytest.raises(deepgram.core.api_error.ApiError) as caught:
        sdk.listen.v1.media.transcribe_file(request=b"no sound at all", model="nova-3")
    assert caught.value.status_code == 400
    assert "expected wav, flac," in str(caught.value.body)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"json": {"url": "x"}}, "body: expected audio, got JSON: no address is fetched here"),
        (
            {"files": {"file": b"x"}},
            "body: expected audio, got a form: send the bytes alone",
        ),
        ({"content": b""}, "audio: expected a file, got an empty one"),
    ],
)
def test_a_body_that_is_no_audio_is_a_clear_error(
    given: dict[str, Any], message: str, at_rest: Running
) -> None:
    answer = httpx.post(f"{at_rest.page}/v1/listen", **given)
    assert (answer.status_code, answer.json()["err_msg"]) == (400, message)


def test_a_wrong_parameter_refuses_the_handshake(at_rest: Running) -> None:
    with pytest.raises(websockets.InvalidStatus) as caught:  # which this SDK passes on
        listen(at_rest, encoding="g729é")
    answer = caught.value.response
    assert answer.status_code == 400
    body = json.loads(answer.body or b"")
    assert "got 'g729é'" in body["err_msg"]
    assert json.loads(answer.headers["dg-error"]) == body
    assert answer.headers["dg-request-id"] == body["request_id"]


def test_a_client_that_may_not_come_in_is_told_only_that(
    online: ReferenceRecognizer, tmp_path: Path
) -> None:
    file = KeyFile(tmp_path / "keys.json")
    file.add("another")
    with (
        running(online, keys=file.path) as server,
        pytest.raises(websockets.InvalidStatus) as caught,
    ):
        listen(server, encoding="g729")
    assert caught.value.response.status_code == 401


def test_audio_in_a_container_is_heard_as_it_comes(at_rest: Running) -> None:
    data = encoded(SPEECH, "webm")
    options: dict[str, Any] = {"encoding": None, "sample_rate": None}
    messages = listen(at_rest, *chunks(data), "send_close_stream", **options)
    assert messages[-1].duration == pytest.approx(2.5, abs=0.15)
    answer = httpx.post(f"{at_rest.page}/v1/listen", content=data, timeout=PATIENCE).json()
    [only] = answer["results"]["channels"][0]["alternatives"]
    assert finals(messages) == only["transcript"] != ""


OTHER = noise(2, 2.5)
BOTH = pcm(np.stack([SPEECH, OTHER], axis=1).ravel())
TWO: dict[str, Any] = {"multichannel": True, "channels": 2}


def finals_of(messages: list[Any], channel: int) -> str:
    return finals(
        [one for one in messages if one.type != "Results" or one.channel_index == [channel, 2]]
    )


def test_each_channel_of_live_speech_is_written_for_itself(
    at_rest: Running, online: ReferenceRecognizer, text: str
) -> None:
    messages = listen(at_rest, *chunks(BOTH), "send_finalize", "send_close_stream", **TWO)
    assert finals_of(messages, 0) == text
    assert finals_of(messages, 1) == spelt(transcribe(online, rounded(OTHER)))[0].strip() != text
    asked = [one.channel_index for one in messages if one.type == "Results" and one.from_finalize]
    assert sorted(asked) == [[0, 2], [1, 2]]
    assert [one.type for one in messages].index("Metadata") == len(messages) - 1
    assert (messages[-1].channels, messages[-1].duration) == (2, 2.5)
    assert len({one.metadata.request_id for one in messages if one.type == "Results"}) == 1


def test_each_channel_of_a_file_is_written_for_itself(at_rest: Running, text: str) -> None:
    with client(at_rest) as sdk:
        answer = sdk.listen.v1.media.transcribe_file(
            request=wav(OTHER, SPEECH), multichannel=True, utterances=True
        )
    found = [one.alternatives[0].transcript for one in answer.results.channels]
    assert (found[1], answer.metadata.channels) == (text, 2)
    assert found[0] not in ("", text)
    of_second = [one.transcript for one in answer.results.utterances if one.channel == 1]
    assert " ".join(of_second) == text
    starts = [one.start for one in answer.results.utterances]
    assert starts == sorted(starts)


def test_channels_end_together(at_rest: Running) -> None:
    """By an error of all, by a client that vanishes, and by one that says nothing."""
    wrong = listen(at_rest, wav(SPEECH), "send_close_stream", encoding=None, **TWO)
    assert [one["type"] if isinstance(one, dict) else one.type for one in wrong] == ["Error"]
    url = at_rest.page.replace("http", "ws", 1) + "/v1/listen?multichannel=true&channels=8"

    async def vanish(*frames: bytes) -> None:
        async with websockets.connect(f"{url}&encoding=linear16&sample_rate=16000") as socket:
            for frame in frames:
                await socket.send(frame)
            socket.transport.abort()

    asyncio.run(vanish())
    asyncio.run(vanish(*[bytes(64_000)] * 20))


def test_channels_without_a_word_close_with_their_metadata(online: ReferenceRecognizer) -> None:
    deadlines = ("start_timeout_seconds", "idle_timeout_seconds", "send_timeout_seconds")
    with running(online, **dict.fromkeys(deadlines, 2 * PATIENCE)) as server:  # none wakes them
        url = server.page.replace("http", "ws", 1) + "/v1/listen?multichannel=true&channels=2"
        close = '{"type":"CloseStream"}'
        heard = say(f"{url}&encoding=linear16&sample_rate=16000", bytes(6400), close)
    assert (heard.types, heard.close_code) == (["Metadata"], 1000)


def test_each_channel_counts_as_a_stream(online: ReferenceRecognizer, tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys.json")
    key = file.add("two")
    with running(online, keys=file.path, max_streams_per_key=2) as server:
        url = server.page.replace("http", "ws", 1) + "/v1/listen?multichannel=true&channels="

        async def status(channels: int) -> int:
            headers = {"Authorization": f"Token {key}"}
            try:
                async with websockets.connect(f"{url}{channels}", additional_headers=headers):
                    return 101
            except websockets.InvalidStatus as refused:
                return refused.response.status_code

        assert [asyncio.run(status(channels)) for channels in (2, 3)] == [101, 429]
        assert server.is_at_rest()


@pytest.mark.parametrize("is_announced", [True, False])
def test_a_file_over_the_limit_is_refused(online: ReferenceRecognizer, is_announced: bool) -> None:
    file = wav(SPEECH)
    content = file if is_announced else iter([file])
    with running(online, max_upload_bytes=2000) as server:
        answer = httpx.post(f"{server.page}/v1/listen", content=content, timeout=PATIENCE)
    assert answer.status_code == 413
    found = f"{len(file)} bytes" if is_announced else "more"
    assert answer.json()["err_msg"] == f"expected a file of at most 2000 bytes, got {found}"


@pytest.mark.parametrize("address", ["listen", "audio/transcriptions"])
def test_a_file_that_the_server_has_no_room_for_is_a_clear_error(
    address: str, at_rest: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: FileIO("/dev/full", "r+"))
    data = bytes(2**21)  # more than stays in memory
    sent: dict[str, Any] = {"files": {"file": data}} if "audio" in address else {"content": data}
    answer = httpx.post(f"{at_rest.page}/v1/{address}", timeout=PATIENCE, **sent)
    assert answer.status_code == 507
    assert "expected room for the file in the server's temporary folder, got none" in answer.text


@pytest.mark.parametrize("address", ["listen", "audio/transcriptions"])
def test_a_fault_of_the_server_is_not_taken_for_its_client_s_mistake(
    address: str,
    at_rest: Running,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def faulty(*_: object) -> str:
        raise ValueError("a fault of ours")

    for name in ("deepgram.file.response", "openai.transcription.answer"):
        monkeypatch.setattr(f"cortado.server.doors.{name}", faulty)
    data = wav(SPEECH[:4000])
    sent: dict[str, Any] = {"files": {"file": data}} if "audio" in address else {"content": data}
    answer = httpx.post(f"{at_rest.page}/v1/{address}", timeout=PATIENCE, **sent)
    assert (answer.status_code, answer.text) == (500, "Internal Server Error")
    assert wait_for(lambda: "ValueError: a fault of ours" in caplog.text)


def test_a_slow_disk_holds_up_no_one_but_the_upload(
    at_rest: Running, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    writes, asked = threading.Event(), threading.Event()

    class SlowFile(FileIO):
        def write(self, data: Any) -> int:
            writes.set()
            asked.wait(PATIENCE)
            return super().write(data)

    monkeypatch.setattr("tempfile.TemporaryFile", lambda: SlowFile(tmp_path / "upload", "w+"))
    address = f"{at_rest.page}/v1/listen"
    with ThreadPoolExecutor() as pool:
        upload = pool.submit(httpx.post, address, content=wav(SPEECH), timeout=PATIENCE)
        assert writes.wait(PATIENCE)
        try:
            assert httpx.get(f"{at_rest.page}/health", timeout=PATIENCE / 2).status_code == 200
        finally:
            asked.set()
        assert upload.result().status_code == 200


def test_a_token_that_was_granted_lets_in_in_place_of_a_key(
    online: ReferenceRecognizer, tmp_path: Path, text: str
) -> None:
    file = KeyFile(tmp_path / "keys.json")
    key = file.add("app")
    with running(online, keys=file.path) as server:
        with client(server, api_key=key) as sdk:
            granted = sdk.auth.v1.tokens.grant(ttl_seconds=45)
            assert sdk.auth.v1.tokens.grant().expires_in == 30
            with pytest.raises(deepgram.BadRequestError) as wrong:
                sdk.auth.v1.tokens.grant(ttl_seconds=7200)
        assert "expected ttl_seconds to be less than or equal to 3600" in str(wrong.value.body)
        assert granted.expires_in == 45
        with client(server, access_token=granted.access_token) as sdk:
            answer = sdk.listen.v1.media.transcribe_file(request=wav(SPEECH))
            with pytest.raises(deepgram.core.api_error.ApiError) as refused:
                sdk.auth.v1.tokens.grant()
        assert answer.results.channels[0].alternatives[0].transcript == text
        assert (refused.value.status_code, refused.value.body["err_code"]) == (
            403,
            "short_lived_secret",
        )
        frames = [*chunks(pcm(SPEECH)), "send_close_stream"]
        assert finals(listen(server, *frames, access_token=granted.access_token)) == text
