"""Deepgram's published SDK, of which only the address is changed."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
import websockets

from cortado.model.backends.reference import ReferenceRecognizer
from cortado.model.streaming.recordings import transcribe
from cortado.tests.model.untrained import noise
from cortado.tests.server.doors.sound import encoded, wav
from cortado.tests.server.running import PATIENCE, Running, pcm, rounded, running, spelt

deepgram = pytest.importorskip("deepgram", reason="needs the extra dev")

# The SDK imports names that websockets is about to drop.
pytestmark = pytest.mark.filterwarnings("ignore:websockets.*deprecated:DeprecationWarning")

SPEECH = noise(1, 2.5)
LIVE = {"model": "nova-3", "encoding": "linear16", "sample_rate": 16_000}


@contextmanager
def client(server: Running) -> Iterator[Any]:
    from deepgram.environment import DeepgramClientEnvironment

    live = server.page.replace("http", "ws", 1)
    where = DeepgramClientEnvironment(
        base=server.page, production=live, agent=live, agent_rest=server.page
    )
    with httpx.Client(timeout=PATIENCE) as http:
        yield deepgram.DeepgramClient(api_key="a key", environment=where, httpx_client=http)


@pytest.fixture
def text(online: ReferenceRecognizer) -> str:
    return spelt(transcribe(online, rounded(SPEECH)))[0].strip()


def listen(server: Running, *frames: Any, **options: Any) -> list[Any]:
    """Send frames, methods by name among them, and return all messages to the close."""
    messages: list[Any] = []
    with client(server) as sdk, sdk.listen.v1.connect(**{**LIVE, **options}) as connection:
        connection.on(deepgram.core.events.EventType.MESSAGE, messages.append)
        reading = threading.Thread(target=connection.start_listening)
        reading.start()
        for frame in frames:
            getattr(connection, frame)() if isinstance(frame, str) else connection.send_media(frame)
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


def test_a_file_is_written(at_rest: Running, text: str) -> None:
    with client(at_rest) as sdk:
        answer = sdk.listen.v1.media.transcribe_file(
            request=wav(SPEECH), model="nova-3", utterances=True
        )
    [channel] = answer.results.channels
    assert channel.alternatives[0].transcript == text
    assert answer.metadata.duration == 2.5
    assert [one["parameter"] for one in answer.metadata.warnings] == ["model"]
    assert " ".join(one.transcript for one in answer.results.utterances) == text


def test_a_file_that_is_none_is_a_clear_error(at_rest: Running) -> None:
    with client(at_rest) as sdk, pytest.raises(deepgram.core.api_error.ApiError) as caught:
        sdk.listen.v1.media.transcribe_file(request=b"no sound at all", model="nova-3")
    assert caught.value.status_code == 400
    assert "expected wav, flac," in str(caught.value.body)


def test_a_wrong_parameter_refuses_the_handshake(at_rest: Running) -> None:
    with pytest.raises(websockets.InvalidStatus) as caught:  # which this SDK passes on
        listen(at_rest, encoding="g729")
    assert caught.value.response.status_code == 400
    assert b"got 'g729'" in (caught.value.response.body or b"")


@pytest.mark.parametrize("kind", ["ogg", "webm", "flac", "mp3", "aac"])
def test_audio_in_a_container_is_heard_as_it_comes(kind: str, at_rest: Running) -> None:
    data = encoded(SPEECH, kind)
    options = {"encoding": None, "sample_rate": None}
    messages = listen(at_rest, *chunks(data), "send_close_stream", **options)
    assert messages[-1].duration == pytest.approx(2.5, abs=0.15)
    answer = httpx.post(f"{at_rest.page}/v1/listen", content=data, timeout=PATIENCE).json()
    [only] = answer["results"]["channels"][0]["alternatives"]
    assert finals(messages) == only["transcript"] != ""


def test_a_file_over_the_limit_is_refused(online: ReferenceRecognizer) -> None:
    with running(online, max_upload_bytes=2000) as server:
        answer = httpx.post(f"{server.page}/v1/listen", content=wav(SPEECH), timeout=PATIENCE)
    assert answer.status_code == 413
    assert answer.json()["err_msg"] == "expected a file of at most 2000 bytes, got more"
