"""The messages of both sides."""

import pytest
from pydantic import ValidationError

from cortado.server.protocol.messages import (
    Chars,
    Endpoint,
    Error,
    ErrorCode,
    Final,
    ProtocolError,
    Ready,
    Start,
    Suspended,
)
from cortado.server.protocol.parsing import parse_client, parse_server


def refusal(text: str) -> ErrorCode:
    """Return the code with which a client's text is refused."""
    with pytest.raises(ProtocolError) as caught:
        parse_client(text)
    assert caught.value.message.startswith("expected ")
    assert ", got " in caught.value.message
    assert len(caught.value.message) < 200
    return caught.value.code


def test_phrases_may_have_commas() -> None:
    phrases = tuple(f"Ada, Lovelace, Byron, {number}" for number in range(100))
    assert parse_client(Start(phrases=phrases).model_dump_json()) == Start(phrases=phrases)


@pytest.mark.parametrize("inner", ['"a":0,', '"phrases":["a"', '"phrases":["'])
def test_a_message_of_very_many_commas_is_not_read(inner: str) -> None:
    with pytest.raises(ProtocolError, match="expected at most 1000 commas, got 1002"):
        parse_client('{"type":"start",' + inner + "," * (1001 - inner.count(",")))


def test_start_has_defaults() -> None:
    assert parse_client('{"type": "start"}') == Start(sample_rate=16_000, encoding="pcm_s16le")


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
        '{"type":"start"' + "".join(f',"x{n}":0' for n in range(95_000)) + "}",
        '{"type":"resume","token":"a","characters":1' + "0" * 4000 + "}",
        *(f'{{"type":"resume"{one}}}' for one in ("", ',"state":"AAAA","token":"b"', ',"state":7')),
    ],
)
def test_what_is_not_a_message_is_refused_in_words(text: str) -> None:
    assert refusal(text) == ErrorCode.INVALID_MESSAGE


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        *(
            ("sample_rate", value, ErrorCode.UNSUPPORTED_SAMPLE_RATE)
            for value in ("7999", "192001", '"16000"', "16000.5", "true", "null", "1e400")
        ),
        *(
            ("encoding", value, ErrorCode.UNSUPPORTED_ENCODING)
            for value in ('"g729"', "null", "16", '"PCM_S16LE"', '["pcm_s16le"]')
        ),
    ],
)
def test_another_rate_or_encoding_is_refused(name: str, value: str, code: ErrorCode) -> None:
    assert refusal(f'{{"type":"start","{name}":{value}}}') == code


@pytest.mark.parametrize("rate", [8000, 44_100, 192_000])
def test_a_sample_rate_in_range_is_taken(rate: int) -> None:
    assert parse_client(f'{{"type":"start","sample_rate":{rate}}}') == Start(sample_rate=rate)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ('"keep":1', "expected keep to be a valid boolean, got 1"),
        ('"silence_ms":5', "expected silence_ms to be greater than or equal to 300, got 5"),
        ('"alternatives":50', "expected alternatives to be less than or equal to 10, got 50"),
    ],
)
def test_a_field_that_is_wrong_is_named(field: str, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        parse_client(f'{{"type":"start",{field}}}')


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
        Chars(text="he", times=[0.48, 0.52], confidences=[1.0] * 2, position=0.68),
        Endpoint(utterance=3, start=0.48, end=0.52, position=1.4),
        Final(text="hé", times=[0.48, 0.52], confidences=[1.0] * 2, duration=1.5),
        Final(text="é", times=[0.52], confidences=[1.0], duration=1.5, omitted=1),
        Suspended(state="AAAA", received=16_000, characters=7),
        Error(code=ErrorCode.IDLE_TIMEOUT, message="expected audio, got none"),
    ],
)
def test_what_the_server_says_is_what_a_client_reads(
    message: Ready | Chars | Endpoint | Final | Suspended | Error,
) -> None:
    assert parse_server(message.model_dump_json()) == message


def test_a_client_ignores_fields_of_a_newer_server() -> None:
    text = '{"type":"chars","text":"a","times":[0.1],"confidences":[1],"position":0.2,"x":1}'
    assert parse_server(text) == Chars(text="a", times=[0.1], confidences=[1.0], position=0.2)


def test_a_client_ignores_messages_of_a_newer_server() -> None:
    assert parse_server('{"type":"speaker","name":"one"}') is None


@pytest.mark.parametrize("text", ['{"type":"chars"}', "{}", "[]", "{"])
def test_what_is_no_message_at_all_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        parse_server(text)


def test_every_character_has_its_time() -> None:
    with pytest.raises(ValidationError, match="expected 2 times, got 1"):
        Chars(text="he", times=[0.48], confidences=[1.0], position=0.68)
