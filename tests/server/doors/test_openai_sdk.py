"""OpenAI's published SDK, of which only the address is changed."""

import base64
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from tempfile import SpooledTemporaryFile
from typing import IO, Any

import httpx
import numpy as np
import pytest

from cortado.model.arrays import Samples
from cortado.model.audio.resampler import Resampler
from cortado.model.backends.reference import ReferenceRecognizer
from cortado.model.search.settings import Beam
from cortado.model.streaming import pool
from cortado.model.streaming.interface import StreamingRecognizer
from cortado.model.streaming.recordings import transcribe
from cortado.server.keys import KeyFile
from cortado.tests.model.untrained import noise
from cortado.tests.server.doors.sound import encoded, wav
from cortado.tests.server.running import PATIENCE, Running, pcm, rounded, running, spelt

openai = pytest.importorskip("openai", reason="needs the extra dev")

# The SDK opens websockets in a way that websockets is about to drop.
pytestmark = pytest.mark.filterwarnings("ignore:connect.*context manager:DeprecationWarning")

SPEECH = noise(1, 2.0)
FILE = ("talk.wav", wav(SPEECH))


@contextmanager
def client(server: Running, key: str = "a key") -> Iterator[Any]:
    with openai.OpenAI(
        api_key=key, base_url=f"{server.page}/v1", max_retries=0, timeout=PATIENCE
    ) as found:
        yield found


@pytest.fixture
def text(online: ReferenceRecognizer) -> str:
    return spelt(transcribe(online, rounded(SPEECH)))[0].strip()


def test_the_models_are_listed(at_rest: Running) -> None:
    with client(at_rest) as sdk:
        assert [one.id for one in sdk.models.list()] == ["untrained"]
        assert sdk.models.retrieve("untrained").owned_by == "cortado"
        with pytest.raises(openai.NotFoundError):
            sdk.models.retrieve("gpt-transcribe")


def test_a_file_is_written_in_each_format(at_rest: Running, text: str) -> None:
    with client(at_rest) as sdk:
        create = sdk.audio.transcriptions.create
        found = create(file=FILE, model="untrained")
        assert (found.text, found.usage.seconds) == (text, 2.0)
        assert create(file=FILE, model="untrained", response_format="text").strip() == text
        assert create(file=FILE, model="x", response_format="srt").startswith("1\n00:00:0")
        assert create(file=FILE, model="x", response_format="vtt").startswith("WEBVTT\n")
        verbose = create(
            file=FILE,
            model="whisper-1",
            response_format="verbose_json",
            timestamp_granularities=["word"],
        )
        sure = create(file=FILE, model="untrained", include=["logprobs"])
    assert "".join(one.token for one in sure.logprobs) == text
    assert all(one.logprob <= 0 for one in sure.logprobs)
    assert (verbose.text, verbose.duration) == (text, 2.0)
    assert [word.word for word in verbose.words] == text.split()
    assert verbose.warnings == ["model: whisper-1 is not here; untrained writes the text"]


def test_text_is_streamed_as_it_is_written(at_rest: Running, text: str) -> None:
    with client(at_rest) as sdk:
        create = sdk.audio.transcriptions.create
        events = list(create(file=FILE, model="untrained", stream=True, include=["logprobs"]))
    *deltas, done = events
    assert {one.type for one in deltas} == {"transcript.text.delta"}
    assert "".join(one.delta for one in deltas) == done.text == text
    assert len(deltas) > 1
    assert "".join(one.token for one in done.logprobs) == text
    assert all("".join(one.token for one in each.logprobs) == each.delta for each in deltas)


def test_a_file_of_another_format_is_written(at_rest: Running) -> None:
    data = encoded(SPEECH[:16_000], "m4a", live=False)
    with client(at_rest) as sdk:
        found = sdk.audio.transcriptions.create(file=("talk.m4a", data), model="untrained")
    assert found.text
    assert found.usage.seconds == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize("stream", [False, True])
def test_a_file_that_is_none_is_a_clear_error(stream: bool, at_rest: Running) -> None:
    with client(at_rest) as sdk, pytest.raises(openai.BadRequestError) as caught:
        list(sdk.audio.transcriptions.create(file=b"no sound", model="x", stream=stream))
    assert "expected wav, flac," in caught.value.message
    assert caught.value.type == "invalid_request_error"


@pytest.mark.parametrize("charset", ["unicode_escape", "punycode"])
def test_a_form_in_a_charset_that_takes_long_to_read_is_refused(
    charset: str, at_rest: Running
) -> None:
    """A field of 64 KiB in punycode takes 1.6 s, in which no stream would have its turn."""
    form = b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
    body = form % (b"model", rb"\ud800") + form % (b'file"; filename="a.wav', wav(SPEECH[:4000]))
    kind = f"multipart/form-data; boundary=x; charset={charset}"
    address = f"{at_rest.page}/v1/audio/transcriptions"
    got = httpx.post(address, content=body + b"--x--\r\n", headers={"Content-Type": kind})
    assert got.status_code == 400
    assert "in UTF-8" in got.json()["error"]["message"]


def test_a_form_that_can_have_no_file_is_not_read(at_rest: Running) -> None:
    """To read 100 MB of `&` takes a minute of the event loop."""
    host, port = at_rest.page.removeprefix("http://").split(":")
    with closing(HTTPConnection(host, int(port), timeout=PATIENCE)) as connection:
        connection.putrequest("POST", "/v1/audio/transcriptions")
        connection.putheader("Content-Type", "application/x-www-form-urlencoded")
        connection.putheader("Content-Length", "100000")
        connection.endheaders(b"&" * 1000)
        answer = connection.getresponse()
        assert answer.status == 400
        assert b"expected a form (multipart/form-data)" in answer.read()


def test_a_file_is_closed_even_if_a_later_field_has_its_name(
    at_rest: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    files: list[IO[bytes]] = []

    class Noted(SpooledTemporaryFile[bytes]):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            files.append(self)

    monkeypatch.setattr("starlette.formparsers.SpooledTemporaryFile", Noted)
    parts: Any = [("file", ("a.wav", wav(SPEECH[:4000]))), ("file", (None, "a text"))]
    got = httpx.post(f"{at_rest.page}/v1/audio/transcriptions", files=parts)
    assert got.json()["error"]["message"] == "file: expected a file, got none"
    assert [file.closed for file in files] == [True]


def test_a_hundred_phrases_fit_a_form(at_rest: Running) -> None:
    words = {"keywords[]": [f"word{k}" for k in range(100)], "response_format": "json"}
    sound = {"file": ("a.wav", wav(SPEECH[:4000]))}
    got = httpx.post(f"{at_rest.page}/v1/audio/transcriptions", data=words, files=sound)
    assert got.status_code == 200


def test_a_form_without_sense_is_a_clear_error(online: ReferenceRecognizer) -> None:
    with running(online, max_upload_bytes=2000) as server, client(server) as sdk:
        create = sdk.audio.transcriptions.create
        with pytest.raises(openai.BadRequestError, match="response_format: expected"):
            create(file=b"x", model="x", response_format="diarized_json")
        with pytest.raises(openai.APIStatusError, match="at most 2000 bytes") as caught:
            create(file=wav(noise(1, 4.0)), model="x")
        assert caught.value.status_code == 413
        server.service.streams.draining.set()
        with pytest.raises(openai.InternalServerError) as caught:
            create(file=wav(SPEECH[:4000])[:2000], model="x")
        assert caught.value.status_code == 503
        assert int(caught.value.response.headers["Retry-After"]) > 0


def at_24_khz(samples: Samples) -> Samples:
    resampler = Resampler(16_000, 24_000)
    return np.concatenate([resampler.push(samples), resampler.finish()])


def test_a_realtime_session_writes_what_is_committed(
    at_rest: Running, online: ReferenceRecognizer
) -> None:
    speech = rounded(at_24_khz(SPEECH))
    resampler = Resampler(24_000)
    heard = np.concatenate([resampler.push(speech), resampler.finish()])
    expected = spelt(transcribe(online, heard))[0].strip()
    data, deltas = pcm(speech), ""
    with (
        client(at_rest) as sdk,
        sdk.realtime.connect(extra_query={"intent": "transcription"}) as connection,
    ):
        assert connection.recv().type == "session.created"
        given = {"format": {"type": "audio/pcm", "rate": 24_000}, "turn_detection": None}
        connection.session.update(session={"type": "transcription", "audio": {"input": given}})
        assert connection.recv().type == "session.updated"
        for place in range(0, len(data), 9600):
            audio = base64.b64encode(data[place : place + 9600]).decode()
            connection.input_audio_buffer.append(audio=audio)
        connection.input_audio_buffer.commit()
        for event in connection:
            if event.type.endswith(".delta"):
                deltas += event.delta
            elif event.type.endswith(".completed"):
                break
    assert event.transcript == deltas == expected
    assert event.usage.seconds == 2.0


def test_a_prompt_of_a_greedy_search_is_a_warning_and_no_error(at_rest: Running, text: str) -> None:
    with client(at_rest) as sdk:
        found = sdk.audio.transcriptions.create(file=FILE, model="untrained", prompt="Ada, gyre")
    assert found.text == text
    [warning] = found.warnings
    assert warning.startswith("prompt: it has no effect here: the server has no search")


def test_a_prompt_names_phrases_that_the_stream_expects(
    online: ReferenceRecognizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    searching = ReferenceRecognizer(online.recognizer, Beam(4))
    trees: list[Any] = []
    expect = pool._expected

    def noted(recognizer: StreamingRecognizer, *phrases: str) -> Any:
        trees.append(phrases)
        return expect(recognizer, *phrases)

    monkeypatch.setattr(pool, "_expected", noted)
    with running(searching) as server, client(server) as sdk:
        prompt = "the abbot's gyre, Ada\nLovelace"
        found = sdk.audio.transcriptions.create(file=FILE, model="untrained", prompt=prompt)
    assert [one for one in trees if one] == [("the abbot's gyre", "Ada", "Lovelace")]
    assert found.text == spelt(transcribe(searching, rounded(SPEECH)))[0].strip() != ""
    assert not hasattr(found, "warnings")


@pytest.fixture(scope="module")
def locked(
    online: ReferenceRecognizer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Running, str]]:
    """A server that wants keys, and one of them."""
    file = KeyFile(tmp_path_factory.mktemp("keys") / "keys.json")
    key = file.add("app")
    with running(online, keys=file.path) as server:
        yield server, key


def test_a_secret_of_a_browser_begins_a_session_as_it_was_asked_for(
    locked: tuple[Running, str],
) -> None:
    server, key = locked
    turns = {"type": "server_vad", "silence_duration_ms": 450}
    session = {
        "type": "transcription",
        "audio": {"input": {"format": {"type": "audio/pcmu"}, "turn_detection": turns}},
    }
    with client(server, key) as sdk:
        made = sdk.realtime.client_secrets.create(
            expires_after={"anchor": "created_at", "seconds": 60}, session=session
        )
    assert made.value.startswith("cs_")
    assert 0 < made.expires_at - time.time() <= 61
    given = made.session.audio.input
    assert (given.format.type, given.turn_detection.silence_duration_ms) == ("audio/pcmu", 450)
    with client(server, made.value) as sdk:
        with sdk.realtime.connect(extra_query={"intent": "transcription"}) as connection:
            created = connection.recv().session.audio.input
        assert created.format.type == "audio/pcmu"
        assert created.turn_detection.silence_duration_ms == 450
        with pytest.raises(openai.PermissionDeniedError) as refused:
            sdk.realtime.client_secrets.create()
    assert refused.value.code == "short_lived_secret"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"expires_after": {"anchor": "created_at", "seconds": 5}},
            "expected expires_after.seconds to be greater than or equal to 10, got 5",
        ),
        (
            {"session": {"type": "realtime"}},
            "expected session.type to be 'transcription', got 'realtime'",
        ),
    ],
)
def test_a_secret_that_cannot_be_is_a_clear_error(
    locked: tuple[Running, str], asked: dict[str, Any], message: str
) -> None:
    server, key = locked
    with client(server, key) as sdk, pytest.raises(openai.BadRequestError, match=message):
        sdk.realtime.client_secrets.create(**asked)
    with client(server, "ck_app_wrong") as sdk, pytest.raises(openai.AuthenticationError):
        sdk.realtime.client_secrets.create()
