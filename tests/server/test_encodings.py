"""Audio of every encoding at `/v1/stream`."""

import json

import av
import httpx
import numpy as np
import pytest
from av.container import InputContainer

from cortado.model.audio.telephone import linear
from cortado.model.backends.reference import ReferenceRecognizer
from cortado.model.streaming.recordings import transcribe
from cortado.server.doors.own import Own
from cortado.server.protocol.messages import ErrorCode, Start
from cortado.tests.model.untrained import noise
from cortado.tests.server.doors.conversation import Conversation
from cortado.tests.server.doors.sound import Pipe, encoded, wav
from cortado.tests.server.running import END, PATIENCE, Running, pcm, rounded, say, spelt

SPEECH = rounded(noise(1, 2.0))
WHOLE = np.round(SPEECH * 2**15).astype("<i4")  # of 16 bits
RAW = {
    "pcm_s24le": (WHOLE << 8).view(np.uint8).reshape(-1, 4)[:, :3].tobytes(),
    "pcm_s32le": (WHOLE << 16).tobytes(),
    "pcm_f32le": SPEECH.astype("<f4").tobytes(),
}


def start(encoding: str, **fields: object) -> str:
    return json.dumps({"type": "start", "encoding": encoding} | fields)


@pytest.mark.parametrize("encoding", RAW)
def test_wide_samples_are_those_of_16_bits(encoding: str, at_rest: Running) -> None:
    expected = say(at_rest.url, start("pcm_s16le"), pcm(SPEECH), END)
    data = RAW[encoding]
    heard = say(at_rest.url, start(encoding), data[:1001], data[1001:], END)
    assert heard.messages[0]["encoding"] == encoding
    assert (heard.text, heard.times) == (expected.text, expected.times)


@pytest.mark.parametrize("law", ["mulaw", "alaw"])
def test_telephone_codes_are_heard_as_their_samples(
    law: str, at_rest: Running, online: ReferenceRecognizer
) -> None:
    codes = np.random.default_rng(1).integers(0, 256, 16_000).astype(np.uint8).tobytes()
    samples = linear(codes, law).astype(np.float32) / np.float32(2**15)  # type: ignore[arg-type]
    heard = say(at_rest.url, start(law), codes, END)
    assert heard.text == spelt(transcribe(online, samples))[0]


@pytest.mark.parametrize("kind", ["ogg", "webm", "flac", "wav", "mp3", "aac"])
def test_compressed_audio_is_heard_as_it_comes(kind: str, at_rest: Running) -> None:
    data = wav(SPEECH) if kind == "wav" else encoded(SPEECH, kind)
    frames = [data[k : k + 3000] for k in range(0, len(data), 3000)]
    heard = say(at_rest.url, start(kind), *frames, END)
    assert (heard.close_code, heard.messages[0]["encoding"]) == (1000, kind)
    assert heard.messages[-1]["duration"] == pytest.approx(2.0, abs=0.15)
    answer = httpx.post(f"{at_rest.page}/v1/listen", content=data, timeout=PATIENCE).json()
    [only] = answer["results"]["channels"][0]["alternatives"]
    assert heard.text.strip() == only["transcript"] != ""


def test_bare_opus_packets_are_heard(at_rest: Running) -> None:
    with av.open(Pipe(encoded(SPEECH, "ogg"))) as container:
        assert isinstance(container, InputContainer)
        packets = [bytes(packet) for packet in container.demux(audio=0)]
    heard = say(at_rest.url, start("opus"), *packets, END)
    assert heard.messages[-1]["duration"] == pytest.approx(2.0, abs=0.05)
    assert heard.text


@pytest.mark.parametrize(
    ("frames", "code", "message"),
    [
        (
            [start("flac"), b"OggS" + bytes(400)],
            ErrorCode.INVALID_AUDIO,
            "audio: expected flac, got ogg audio",
        ),
        (
            [start("webm", keep=True)],
            ErrorCode.UNSUPPORTED_ENCODING,
            "expected a raw encoding to keep a stream (pcm_s16le, ",
        ),
        (
            [start("webm"), '{"type":"suspend"}'],
            ErrorCode.UNSUPPORTED_ENCODING,
            "expected a raw encoding to suspend a stream (pcm_s16le, ",
        ),
        (
            [start("opus", sample_rate=48_000)],
            ErrorCode.UNSUPPORTED_SAMPLE_RATE,
            "expected no sample_rate beside opus, whose data says it, got one",
        ),
        (
            [start("g729")],
            ErrorCode.UNSUPPORTED_ENCODING,
            "expected an encoding of pcm_s16le, pcm_f32le, pcm_s24le, ",
        ),
    ],
)
def test_what_cannot_be_heard_or_kept_is_said(
    frames: list[str | bytes], code: ErrorCode, message: str
) -> None:
    talk = Conversation(Own())
    talk.say(*frames)
    talk.talk.release(0.0)
    error = talk.read()[-1]
    assert (error["type"], error["code"]) == ("error", code)
    assert error["message"].startswith(message)


def test_compressed_audio_is_decoded_before_the_protocol_reads_it() -> None:
    talk = Conversation(Own())
    ready = talk.say(start("wav"))[0]
    assert (ready["encoding"], ready["sample_rate"]) == ("wav", 16_000)
    assert talk.events[0] == Start(encoding="pcm_f32le")
    talk.say(wav(SPEECH), END)
    assert np.array_equal(np.array(talk.audio, np.float32), SPEECH)
