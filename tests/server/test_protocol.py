"""The conversation, without a socket."""

import json
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from cortado.server.protocol.conversation import Audio, Conversation
from cortado.server.protocol.messages import (
    CLOSE_CODES,
    Chars,
    Encoding,
    End,
    Endpoint,
    Error,
    ErrorCode,
    Final,
    ProtocolError,
    Ready,
    Resume,
    Start,
    Suspend,
    Suspended,
    parse_client,
    parse_server,
)
from cortado.server.protocol.pcm import PcmDecoder

LIMIT = 4096
WAVE = np.sin(np.arange(1000) / 5).astype(np.float32)


def understood(frames: Iterable[str | bytes]) -> None:
    """Receive frames in one conversation."""
    conversation = Conversation(LIMIT)
    for frame in frames:
        conversation.receive(frame)


def refusal(*frames: str | bytes) -> ErrorCode:
    """Return the code with which a conversation of these frames ends."""
    with pytest.raises(ProtocolError) as caught:
        understood(frames)
    assert caught.value.message.startswith("expected ")
    assert ", got " in caught.value.message
    assert len(caught.value.message) < 200
    return caught.value.code


def test_start_has_defaults() -> None:
    assert parse_client('{"type": "start"}') == Start(sample_rate=16_000, encoding="pcm_s16le")


def test_a_conversation_is_start_then_audio_then_end() -> None:
    conversation = Conversation(LIMIT)
    start = conversation.receive('{"type":"start","sample_rate":8000,"encoding":"pcm_s16le"}')
    assert start == Start(sample_rate=8000)
    heard = conversation.receive(bytes(1600))
    assert isinstance(heard, Audio)
    assert heard.samples.shape == (800,)
    assert conversation.duration == 0.1
    assert conversation.receive('{"type":"end"}') == End()
    assert conversation.ended


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "7",
        '"start"',
        "{}",
        '{"type":"stop"}',
        '{"type":["start"]}',
        '{"type":"start","sampel_rate":16000}',
        '{"type":"end","sample_rate":16000}',
        "[" * 4000,
        '{"type":"start","sample_rate":NaN',
        '{"type":"' + "x" * 4000 + '"}',
        "\ud800",
    ],
)
def test_what_is_not_a_message_is_refused_in_words(text: str) -> None:
    assert refusal(text) == ErrorCode.INVALID_MESSAGE


@pytest.mark.parametrize("rate", ["7999", "192001", '"16000"', "16000.5", "true", "null", "1e400"])
def test_a_sample_rate_out_of_range_is_refused(rate: str) -> None:
    assert refusal(f'{{"type":"start","sample_rate":{rate}}}') == ErrorCode.UNSUPPORTED_SAMPLE_RATE


@pytest.mark.parametrize("rate", [8000, 44_100, 192_000])
def test_a_sample_rate_in_range_is_taken(rate: int) -> None:
    assert parse_client(f'{{"type":"start","sample_rate":{rate}}}') == Start(sample_rate=rate)


@pytest.mark.parametrize("encoding", ['"opus"', "null", "16", '"PCM_S16LE"', '["pcm_s16le"]'])
def test_another_encoding_is_refused(encoding: str) -> None:
    message = f'{{"type":"start","encoding":{encoding}}}'
    assert refusal(message) == ErrorCode.UNSUPPORTED_ENCODING


@pytest.mark.parametrize(
    "frames",
    [
        (bytes(2),),
        ('{"type":"end"}',),
        ('{"type":"start"}', '{"type":"start"}'),
        ('{"type":"start"}', '{"type":"end"}', bytes(2)),
        ('{"type":"start"}', '{"type":"end"}', '{"type":"end"}'),
    ],
)
def test_a_message_out_of_order_is_refused(frames: tuple[str | bytes, ...]) -> None:
    assert refusal(*frames) == ErrorCode.UNEXPECTED_MESSAGE


@pytest.mark.parametrize("frame", [bytes(LIMIT + 1), " " * (LIMIT + 1), "ä" * (LIMIT // 2 + 1)])
def test_a_message_over_the_limit_is_refused(frame: str | bytes) -> None:
    assert refusal('{"type":"start"}', frame) == ErrorCode.MESSAGE_TOO_BIG


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_float_that_is_no_number_is_refused(bad: float) -> None:
    samples = np.array([0, bad, 0], "<f4").tobytes()
    assert refusal('{"type":"start","encoding":"pcm_f32le"}', samples) == ErrorCode.INVALID_AUDIO


def test_floats_beyond_full_scale_are_clipped() -> None:
    samples = np.array([1e30, -2, 0.25], "<f4").tobytes()
    assert PcmDecoder("pcm_f32le").decode(samples).tolist() == [1, -1, 0.25]


def test_integers_span_minus_one_to_one() -> None:
    samples = np.array([-32768, 0, 16384, 32767], "<i2").tobytes()
    assert PcmDecoder("pcm_s16le").decode(samples).tolist() == [-1, 0, 0.5, 32767 / 32768]


@settings(deadline=None)  # a busy machine is no fault
@given(st.sampled_from(["pcm_s16le", "pcm_f32le"]), st.lists(st.integers(0, 900), max_size=30))
def test_samples_do_not_depend_on_where_bytes_are_cut(encoding: Encoding, cuts: list[int]) -> None:
    data = WAVE.tobytes() if encoding == "pcm_f32le" else (WAVE * 9999).astype("<i2").tobytes()
    whole = PcmDecoder(encoding).decode(data)
    decoder, pieces, at = PcmDecoder(encoding), [], 0
    for size in [*cuts, len(data)]:
        pieces.append(decoder.decode(data[at : at + size]))
        at += size
    assert np.array_equal(np.concatenate(pieces), whole)


frames = st.one_of(
    st.text(max_size=40),
    st.binary(max_size=40),
    st.sampled_from(
        ['{"type":"start"}', '{"type":"end"}', '{"type":"start","encoding":"pcm_f32le"}']
    ),
    st.dictionaries(
        st.sampled_from(["type", "sample_rate", "encoding", "x"]),
        st.one_of(st.sampled_from(["start", "end", "pcm_s16le"]), st.integers(), st.floats()),
    ).map(json.dumps),
)


@settings(deadline=None)
@given(st.lists(frames, max_size=8))
def test_whatever_a_client_sends_is_understood_or_refused(sent: list[str | bytes]) -> None:
    with suppress(ProtocolError):
        understood(sent)


@pytest.mark.parametrize(
    "message",
    [
        Ready(
            session="1",
            model="m",
            sample_rate=16_000,
            encoding="pcm_s16le",
            step_ms=40,
            lookahead_ms=110,
        ),
        Chars(text="he", times=[0.48, 0.52], position=0.68),
        Endpoint(utterance=3, start=0.48, end=0.52, position=1.4),
        Final(text="hé", times=[0.48, 0.52], duration=1.5),
        Final(text="é", times=[0.52], duration=1.5, omitted=1),
        Suspended(state="AAAA", received=16_000, characters=7),
        Error(code=ErrorCode.IDLE_TIMEOUT, message="expected audio, got none"),
    ],
)
def test_what_the_server_says_is_what_a_client_reads(
    message: Ready | Chars | Endpoint | Final | Suspended | Error,
) -> None:
    assert parse_server(message.model_dump_json()) == message


def test_a_client_ignores_fields_of_a_newer_server() -> None:
    text = '{"type":"chars","text":"a","times":[0.1],"position":0.2,"confidence":0.9}'
    assert parse_server(text) == Chars(text="a", times=[0.1], position=0.2)


def test_a_client_ignores_messages_of_a_newer_server() -> None:
    assert parse_server('{"type":"speaker","name":"one"}') is None


@pytest.mark.parametrize("text", ['{"type":"chars"}', "{}", "[]", "{"])
def test_what_is_no_message_at_all_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        parse_server(text)


def test_a_stream_may_begin_with_resume_and_end_with_suspend() -> None:
    conversation = Conversation(LIMIT)
    resume = conversation.receive('{"type":"resume","state":"AAAA"}')
    assert resume == Resume(state="AAAA")
    conversation.go_on(Start(), 15_000)
    conversation.receive(bytes(2000))
    assert conversation.duration == 1.0
    assert conversation.receive('{"type":"suspend"}') == Suspend()
    assert conversation.ended


@pytest.mark.parametrize("fields", ["", ',"state":"AAAA","token":"b"', ',"state":7'])
def test_a_stream_is_resumed_by_its_state_or_by_its_token(fields: str) -> None:
    assert refusal('{"type":"resume"' + fields + "}") == ErrorCode.INVALID_MESSAGE


def test_a_stream_that_is_resampled_cannot_be_suspended() -> None:
    frames = ('{"type":"start","sample_rate":48000}', '{"type":"suspend"}')
    assert refusal(*frames) == ErrorCode.UNSUPPORTED_SAMPLE_RATE


def test_every_character_has_its_time() -> None:
    with pytest.raises(ValidationError, match="expected 2 times, got 1"):
        Chars(text="he", times=[0.48], position=0.68)


def test_every_error_closes_with_a_code() -> None:
    assert set(CLOSE_CODES) == set(ErrorCode)
    assert all(1001 < code < 1016 for code in CLOSE_CODES.values())


def test_torch_is_not_needed_for_a_conversation() -> None:
    modules = ", ".join(
        f"cortado.server.{name}"
        for name in ("protocol.conversation", "settings", "session", "logs")
    )
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
