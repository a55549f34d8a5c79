"""Deepgram's door, mostly without sockets."""

import hashlib
import json
import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

import httpx
import numpy as np
import pytest
from websockets.sync.client import connect

from cortado.model.captions import Word
from cortado.server.doors.deepgram.file import paragraphs
from cortado.server.doors.deepgram.live import Live, Shared
from cortado.server.doors.deepgram.messages import Paragraphs
from cortado.server.doors.deepgram.parameters import EFFECTIVE, Parameters, read
from cortado.server.protocol.events import Close
from cortado.server.protocol.messages import ErrorCode, Start
from cortado.server.protocol.parsing import UNWEIGHED
from cortado.tests.model.untrained import noise
from cortado.tests.server.doors.conversation import Conversation
from cortado.tests.server.doors.sound import wav
from cortado.tests.server.running import Running

LINEAR16 = "encoding=linear16&sample_rate=16000"
CREATED = datetime(2026, 1, 2, tzinfo=UTC)


def listening(query: str = LINEAR16, **limits: Any) -> Conversation:
    return Conversation(Live(read(parse_qsl(query), live=True), CREATED), **limits)


def transcript(result: dict[str, Any]) -> str:
    return str(result["channel"]["alternatives"][0]["transcript"])


def test_the_stream_begins_as_the_address_says() -> None:
    talk = listening("encoding=linear16&sample_rate=24000&endpointing=false")
    assert talk.say(b"\x00\x40") == []
    assert talk.events[0] == Start(sample_rate=24_000, endpoints=False)
    assert talk.audio == [0.5]


def test_an_utterance_is_one_final_result_with_its_words() -> None:
    talk = listening()
    talk.say(bytes(32_000))
    assert talk.write("he", 0.48) == talk.write("y you", 0.56) == []
    [result] = talk.end_utterance(0, 0.48, 0.72, 1.6)
    assert (result["type"], result["is_final"], result["speech_final"]) == ("Results", True, True)
    assert (result["start"], result["duration"]) == (0.0, 1.6)
    [only] = result["channel"]["alternatives"]
    assert only == {
        "transcript": "hey you",
        "confidence": 0.975,
        "words": [
            {"word": "hey", "start": 0.44, "end": 0.56, "confidence": 0.99},
            {"word": "you", "start": 0.6, "end": 0.72, "confidence": 0.96},
        ],
    }


def test_interim_results_grow_and_are_only_sent_where_they_are_wanted() -> None:
    talk = listening(f"{LINEAR16}&interim_results=true")
    talk.say(bytes(32_000))
    [first], [second] = talk.write("he", 0.48, 0.6), talk.write("y", 0.56, 0.8)
    assert [transcript(first), transcript(second)] == ["he", "hey"]
    assert (second["is_final"], second["start"], second["duration"]) == (False, 0.0, 0.8)


def test_text_that_never_has_a_space_comes_in_parts() -> None:
    talk = listening(f"{LINEAR16}&endpointing=false")
    talk.say(bytes(32_000))
    sent = [result for k in range(2500) for result in talk.write("a", 0.04 * k)]
    assert [len(transcript(one)) for one in sent] == [1001, 1001]


def test_a_long_utterance_comes_in_parts_of_whole_words() -> None:
    talk = listening()
    talk.say(bytes(32_000))
    said = "so it goes on " * 20
    sent = [result for k, one in enumerate(said) for result in talk.write(one, 0.04 * (k + 1))]
    assert len(sent) >= 2
    assert all(result["is_final"] and not result["speech_final"] for result in sent)
    sent += talk.end_utterance(0, 0.04, 11.2, 12.0)
    assert " ".join(map(transcript, sent)) == said.strip()
    ends = [round(one["start"] + one["duration"], 3) for one in sent]
    assert [one["start"] for one in sent[1:]] == ends[:-1]


def test_speech_that_starts_and_ends_is_told_where_that_is_wanted() -> None:
    talk = listening(f"{LINEAR16}&vad_events=true&utterance_end_ms=1000")
    talk.say(bytes(32_000))
    [started] = talk.write("hey", 0.48)
    assert started == {"type": "SpeechStarted", "channel": [0, 1], "timestamp": 0.44}
    assert talk.write("you", 0.6) == []
    ended = talk.end_utterance(0, 0.48, 0.68, 1.7)[-1]
    assert ended == {"type": "UtteranceEnd", "channel": [0, 1], "last_word_end": 0.68}
    assert talk.write(" you", 2.0)[0]["type"] == "SpeechStarted"


def test_the_end_of_speech_is_told_after_as_much_silence_as_is_asked_for() -> None:
    talk = listening(f"{LINEAR16}&utterance_end_ms=2000")
    ended = {"type": "UtteranceEnd", "channel": [0, 1], "last_word_end": 0.56}
    talk.say(bytes(32_000))
    talk.write("hey", 0.48)
    assert [one["type"] for one in talk.end_utterance(0, 0.48, 0.56, 1.6)] == ["Results"]
    talk.say(bytes(32_000))
    assert "WhenProcessed" not in talk.kinds  # 1.44 s
    talk.say(bytes(32_000), bytes(3200))
    assert talk.kinds.count("WhenProcessed") == 1
    talk.talk.send_processed(awaits_commit=False)
    assert talk.read() == [ended]
    talk.say(bytes(96_000))
    assert talk.kinds.count("WhenProcessed") == 1  # it is told once


def silent_after(said: str, query: str) -> Conversation:
    """Return a conversation with words in its first second and silence in the next."""
    talk = listening(f"{LINEAR16}&utterance_end_ms=1000&{query}")
    talk.say(bytes(32_000))
    talk.write(said, 0.48)
    talk.say(bytes(32_000))
    return talk


def test_a_word_that_comes_in_time_puts_the_end_of_speech_off() -> None:
    talk = silent_after("hey", "endpointing=false")
    assert talk.kinds == ["Start", "WhenProcessed"]
    assert talk.write(" you", 1.2) == []  # after 0.68 s
    talk.talk.send_processed(awaits_commit=False)
    assert talk.read() == []
    sent = talk.write(" so", 2.6)  # after 1.32 s
    assert [one["type"] for one in sent] == ["Results", "UtteranceEnd"]


def test_a_word_that_is_still_weighed_puts_the_end_of_speech_off() -> None:
    talk = silent_after("hey", "endpointing=false")
    talk.talk.send_processed(awaits_commit=True)
    assert talk.read() == []
    talk.say(bytes(3200))
    assert talk.kinds.count("WhenProcessed") == 2  # it asks again with the next audio
    talk.talk.send_processed(awaits_commit=False)
    assert [one["type"] for one in talk.read()] == ["Results", "UtteranceEnd"]


def test_the_words_come_as_final_before_the_end_of_speech() -> None:
    talk = silent_after("hey you", "endpointing=5000&vad_events=true")
    talk.talk.send_processed(awaits_commit=False)
    result, ended = talk.read()
    assert (transcript(result), result["is_final"], result["speech_final"]) == (
        "hey you",
        True,
        False,
    )
    assert result["start"] + result["duration"] == ended["last_word_end"] == 0.72
    assert talk.write(" so", 2.6)[0]["type"] == "SpeechStarted"
    [result] = talk.end_utterance(0, 0.48, 2.68, 7.7)[:1]
    assert (transcript(result), result["start"], result["speech_final"]) == ("so", 0.72, True)


@pytest.mark.parametrize(("seconds", "told"), [(1.5, []), (2.0, ["UtteranceEnd"])])
def test_the_end_of_speech_is_told_at_the_end_of_the_stream_too(
    seconds: float, told: list[str]
) -> None:
    for ending in ("Finalize", "CloseStream"):
        talk = listening(f"{LINEAR16}&utterance_end_ms=1000")
        # all at once, so that no audio comes when the words are known
        talk.say(bytes(round(32_000 * seconds)), {"type": ending})
        talk.write("hey", 0.72)
        talk.talk.send_flushed() if ending == "Finalize" else talk.talk.send_final()
        first, *rest = talk.read()
        assert (transcript(first), first["is_final"]) == ("hey", True)
        assert [one["type"] for one in rest if one["type"] != "Metadata"] == told


def test_endpointing_says_after_how_much_silence_an_utterance_ends() -> None:
    for asked, silence in (("500", 500), ("300", 300), ("10", 300), ("true", None)):
        talk = listening(f"{LINEAR16}&endpointing={asked}")
        talk.say(bytes(3200))
        assert talk.events[0] == Start(silence_ms=silence)
        talk.write("hey", 0.04)
        warnings = talk.end_utterance(0, 0, 0.12, 0.5)[0]["metadata"].get("warnings", [])
        assert [one["parameter"] for one in warnings] == ["endpointing"] * (asked == "10")
    for wrong in ("endpointing=-1", "endpointing=9000", "utterance_end_ms=500"):
        with pytest.raises(ValueError, match="expected a number from"):
            listening(f"{LINEAR16}&{wrong}")


def test_finalize_is_answered_with_what_is_left() -> None:
    talk = listening()
    assert talk.say(bytes(32_000), {"type": "Finalize"}) == []
    assert talk.kinds == ["Start", "Flush"]
    talk.write("hey", 0.48)
    talk.talk.send_flushed()
    [result] = talk.read()
    assert (transcript(result), result["from_finalize"]) == ("hey", True)
    talk.talk.send_flushed()
    assert transcript(talk.read()[0]) == ""


@pytest.mark.parametrize("close", ['{"type":"CloseStream"}', b""])
def test_the_end_is_the_rest_and_metadata(close: str | bytes) -> None:
    talk = listening()
    data = bytes(range(200)) * 160
    talk.say(data, close)
    assert talk.kinds[-1] == "End"
    talk.write("hey", 0.48)
    talk.talk.send_final()
    result, metadata = talk.read()
    assert (transcript(result), result["is_final"]) == ("hey", True)
    assert metadata == {
        "type": "Metadata",
        "transaction_key": "deprecated",
        "request_id": "1f",
        "sha256": hashlib.sha256(data).hexdigest(),
        "created": "2026-01-02T00:00:00+00:00",
        "duration": 1.0,
        "channels": 1,
        "models": ["small"],
        "warnings": [],
    }
    talk.talk.release(0.0)
    assert talk.talk.close_expected() == Close(1000)


@pytest.mark.parametrize("frame", [b"\xfc" + bytes(20), '{"type":"KeepAlive"}', "nonsense"])
def test_what_comes_after_the_end_costs_no_text(frame: str | bytes) -> None:
    """As of a client's timer that keeps the connection alive until it is closed."""
    talk, packet = listening("encoding=opus"), b"\xfc" + bytes(20)
    talk.say(packet, '{"type":"CloseStream"}', frame)
    assert talk.talk.ending is None
    talk.write("hey", 0.48)
    talk.talk.send_final()
    result, metadata = talk.read()
    assert transcript(result) == "hey"
    assert metadata["sha256"] == hashlib.sha256(packet).hexdigest()


def test_keyterms_of_a_stream_are_those_of_its_address_and_the_stream_goes_on() -> None:
    talk = listening()
    assert talk.say(bytes(32_000)) == []
    [refused] = talk.say({"type": "Configure", "keyterms": ["Ada"]})
    assert (refused["type"], refused["request_id"]) == ("ConfigureFailure", "1f")
    assert refused["code"] == "CONFIGURE_KEYTERMS_NOT_SUPPORTED"
    talk.write("hey", 0.48)
    assert transcript(talk.end_utterance(0, 0.48, 0.6, 1.6)[0]) == "hey"


def test_parameters_of_a_file_and_of_live_audio_are_told_apart() -> None:
    of_live = "interim_results=true&vad_events=true&utterance_end_ms=1000&endpointing=500"
    asked = parse_qsl(f"{of_live}&utterances=true&sample_rate=8000")
    warned = {one.parameter for one in read(asked, live=False).warnings}
    assert warned == {*dict(parse_qsl(of_live)), "sample_rate"}
    compressed = parse_qsl("encoding=flac&channels=2")
    warned = {one.parameter for one in read(compressed, live=False).warnings}
    assert warned == {"encoding", "channels"}
    assert [one.parameter for one in read(compressed, live=True).warnings] == ["channels"]
    apart = parse_qsl("encoding=opus&channels=2&multichannel=true")
    assert read(apart, live=True).warnings == []
    assert {one.parameter for one in read(asked, live=True).warnings} == {
        "utterances",
        "sample_rate",
    }
    assert read([("endpointing", "false"), ("utterances", "false")], live=False).warnings == []
    [warning] = read([("endpointing", "100")], live=False).warnings
    assert warning.message == "it has no effect on a file"


@pytest.mark.parametrize("live", [False, True])
def test_an_empty_parameter_asks_for_nothing(live: bool) -> None:
    query = "&".join(f"{name}=" for name in [*EFFECTIVE, "model"])
    found = read(parse_qsl(query, keep_blank_values=True), live=live)
    assert found == Parameters()


def test_keep_alive_gives_a_silent_client_more_time() -> None:
    talk = listening(idle_timeout_seconds=30.0)
    talk.say(b"\x00\x00")
    for now in (20.0, 40.0, 60.0):
        talk.talk.receive_data('{"type":"KeepAlive"}', now)
        list(talk.talk.events_received())
        talk.talk.events_handled(now)
        talk.talk.handle_timer(now + 19)
    assert talk.talk.ending is None
    talk.talk.handle_timer(90.0)
    assert talk.talk.ending == ErrorCode.IDLE_TIMEOUT


def test_a_parameter_without_effect_is_answered_with_a_warning() -> None:
    talk = listening(
        f"{LINEAR16}&model=nova-3&smart_format=true&keyterm=a&keyterm=b&punctuate=false"
    )
    talk.say(bytes(32_000))
    talk.write("hey", 0.48)
    [result] = talk.end_utterance(0, 0.48, 0.6, 1.6)
    warned = {one["parameter"] for one in result["metadata"]["warnings"]}
    assert warned == {"model", "smart_format"}
    assert "warnings" not in talk.end_utterance(1, 2, 2, 2)[0]["metadata"]


@pytest.mark.parametrize(
    ("asked", "there"),
    [("punctuate=true", True), ("smart_format=true", True), ("punctuate=false", False)],
)
def test_who_asks_for_punctuation_finds_the_words_where_they_are_looked_for(
    asked: str, there: bool
) -> None:
    talk = listening(f"{LINEAR16}&{asked}")
    talk.say(bytes(32_000))
    talk.write("hey", 0.48)
    [result] = talk.end_utterance(0, 0.48, 0.6, 1.6)
    [word] = result["channel"]["alternatives"][0]["words"]
    assert word.get("punctuated_word") == (word["word"] if there else None)


def test_a_pause_ends_a_paragraph_whose_sentences_are_utterances() -> None:
    said = [("hey you", 0.0), ("so", 2.4), ("bye", 5.0)]  # each word takes half a second
    utterances = [
        [Word(word, start + 0.5 * k, start + 0.5 * k + 0.5) for k, word in enumerate(text.split())]
        for text, start in said
    ]
    found = paragraphs(utterances)
    assert found.transcript == "hey you so\n\nbye"
    first, second = found.paragraphs
    assert (first.num_words, first.start, first.end) == (3, 0.0, 2.9)
    assert [(one.text, one.start, one.end) for one in first.sentences] == [
        ("hey you", 0.0, 1.0),
        ("so", 2.4, 2.9),
    ]
    assert [one.text for one in second.sentences] == ["bye"]
    assert paragraphs([]) == Paragraphs(transcript="", paragraphs=[])


def test_alternatives_come_with_the_end_of_an_utterance_the_written_text_first() -> None:
    talk = listening(f"{LINEAR16}&alternatives=3")
    assert talk.say(bytes(32_000)) == []
    assert talk.events[0] == Start(alternatives=3)
    talk.write("hey you", 0.48, others=[(3, [("hay", 0.5), ("hi", 0.1)])])
    for k in range(60):  # in one piece
        assert talk.write(" so", 0.8 + 0.2 * k) == []
    [result] = talk.end_utterance(0, 0.48, 12.7, 14.0)
    texts = [one["transcript"].split()[:2] for one in result["channel"]["alternatives"]]
    assert texts == [["hey", "you"], ["hay", "you"], ["hi", "you"]]
    assert all(len(one["words"]) == 62 for one in result["channel"]["alternatives"])
    words = [one["words"][0] for one in result["channel"]["alternatives"]]
    assert words == [
        {"word": "hey", "start": 0.44, "end": 0.56, "confidence": 0.98},
        {"word": "hay", "start": 0.44, "end": 0.56, "confidence": 0.01},
        {"word": "hi", "start": 0.44, "end": 0.56, "confidence": 0.002},
    ]
    endless = listening(f"{LINEAR16}&alternatives=2&endpointing=false")
    endless.say(bytes(32_000))
    sent = [one for k in range(150) for one in endless.write(" so", 0.8 + k)]
    assert [len(one["channel"]["alternatives"][0]["words"]) for one in sent] == [61, 61]
    assert listening(f"{LINEAR16}&alternatives=1").say(bytes(2)) == []
    with pytest.raises(ValueError, match="alternatives: expected a number from 1 to 10, got '11'"):
        listening(f"{LINEAR16}&alternatives=11")


def test_key_terms_are_phrases_that_the_stream_expects() -> None:
    talk = listening(f"{LINEAR16}&keyterm=Ada%20Lovelace&keyterm=a:b&keywords=gyre:2&keywords=naas")
    talk.say(bytes(32_000))
    phrases = ("Ada Lovelace", "a:b", "gyre", "naas")
    assert talk.events[0] == Start(endpoints=True, phrases=phrases)


def test_key_terms_that_no_search_weighs_are_answered_with_a_warning(server: Running) -> None:
    query = parse_qsl("keyterm=Ada&keywords=gyre:2&keyterm=Byron")
    asked = read(query, live=True, weighs_phrases=False)
    assert asked.phrases == ()
    assert [one.parameter for one in asked.warnings] == ["keyterm", "keywords"]
    assert read(parse_qsl("utterances=false"), live=False, weighs_phrases=False).warnings == []
    answer = httpx.post(f"{server.page}/v1/listen?keyterm=Ada", content=wav(noise(1, 0.5)))
    [warning] = answer.json()["metadata"]["warnings"]  # of a server whose search is greedy
    assert (warning["parameter"], warning["message"]) == ("keyterm", UNWEIGHED)
    url = server.page.replace("http", "ws", 1) + f"/v1/listen?{LINEAR16}&keyterm=Ada"
    with connect(url) as client:
        client.send('{"type":"CloseStream"}')
        last = json.loads(list(client)[-1])
    assert (last["type"], last["warnings"]) == ("Metadata", [warning])


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("&".join(["keyterm=a"] * 101), "keyterm: expected at most 100, got 101"),
        (f"keyterm={'a' * 101}", "keyterm: expected at most 100 characters, got 'aaa"),
        ("encoding=g729", "encoding: expected linear16, .* got 'g729'"),
        ("encoding=linear16", "sample_rate: expected a number beside encoding linear16"),
        ("encoding=mulaw&sample_rate=-8", "sample_rate: expected a number from 8000"),
        ("encoding=mulaw&sample_rate=9999999999", "sample_rate: expected a number"),
        ("channels=0", "channels: expected a number from 1 to 8"),
        ("channels=0000000019", "channels: expected a number from 1 to 8"),
        (f"{LINEAR16}&multichannel=true", "channels: expected a number beside multichannel, got"),
        ("multichannel=both", "multichannel: expected true or false"),
        (
            "encoding=opus&multichannel=true&channels=3",
            "channels: expected 1 or 2 of encoding opus, got 3",
        ),
        ("interim_results=perhaps", "interim_results: expected true or false"),
    ],
)
def test_what_cannot_be_understood_is_refused(query: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(parse_qsl(query), live=True)


ANNOUNCE = "; raw samples need encoding and sample_rate in the address"


@pytest.mark.parametrize(
    ("query", "frames", "code", "message"),
    [
        *(
            (LINEAR16, (bytes(2), frame), ErrorCode.INVALID_MESSAGE, "expected KeepAlive, .*, got ")
            for frame in ("{", "[]", "null", '{"type":"Start"}', "{}", "[" * 9000)
        ),
        ("", (bytes(400),), ErrorCode.INVALID_AUDIO, f".*{ANNOUNCE}$"),
        (
            "encoding=flac",
            (b"OggS" + bytes(400),),
            ErrorCode.INVALID_AUDIO,
            "audio: expected flac, got ogg audio$",
        ),
    ],
)
def test_what_cannot_be_read_ends_the_stream_with_one_clear_error(
    query: str, frames: tuple[str | bytes, ...], code: ErrorCode, message: str
) -> None:
    talk = listening(query)
    talk.say(*frames)
    talk.talk.release(0.0)
    [error] = talk.read()
    assert (error["type"], error["variant"]) == ("Error", code)
    assert re.match(message, error["description"])
    assert talk.talk.close_expected() == Close(1007, code)


@pytest.mark.parametrize(
    ("query", "data"),
    [
        ("encoding=linear16&sample_rate=8000", np.array([0, 16384, -32768], "<i2").tobytes()),
        ("encoding=linear32&sample_rate=8000", np.array([0, 0.5, -1], "<f4").tobytes()),
        ("encoding=mulaw&sample_rate=8000", bytes([255, 0x8F, 0x00])),
        ("encoding=alaw&sample_rate=8000", bytes([0xD5, 0xA5, 0x2A])),
        (
            "encoding=linear16&sample_rate=8000&channels=2",
            np.array([[0, 0], [32767, 1], [-32768, -32768]], "<i2").tobytes(),
        ),
    ],
)
def test_raw_audio_of_each_encoding_is_read(query: str, data: bytes) -> None:
    talk = listening(query)
    talk.say(data[:3], data[3:])
    np.testing.assert_allclose(talk.audio, [0, 0.5, -1], atol=0.03)
    assert talk.talk.duration == 3 / 8000


BOTH = np.array([[0, 0.5], [0.25, -0.5], [-1, 0.75]], "<f4")  # three samples of two channels


def channel_of(query: str, number: int, shared: Shared) -> Conversation:
    asked = read(parse_qsl(query), live=True)
    return Conversation(Live(asked, CREATED, asked.separate(asked.channels)[number], shared))


@pytest.mark.parametrize(
    ("query", "data"),
    [
        ("encoding=linear32&sample_rate=16000", BOTH.tobytes()),
        ("encoding=linear16&sample_rate=16000", (BOTH * 32768).astype("<i2").tobytes()),
        ("", wav(*BOTH.T)),
    ],
)
def test_each_channel_is_heard_for_itself(query: str, data: bytes) -> None:
    for number in range(2):
        talk = channel_of(f"{query}&multichannel=true&channels=2", number, Shared(2))
        talk.say(data[:11], data[11:], {"type": "CloseStream"})
        assert talk.audio == BOTH[:, number].tolist()


def test_each_channel_says_which_it_is_and_the_last_one_ends_the_stream() -> None:
    query, shared = f"{LINEAR16}&multichannel=true&channels=2&vad_events=true", Shared(2)
    talks = [channel_of(query, number, shared) for number in range(2)]
    for talk in talks:
        talk.say(bytes(64_000), {"type": "CloseStream"})
    assert talks[1].write("you", 0.48)[0]["channel"] == [1, 2]
    talks[1].talk.send_final()
    [result] = talks[1].read()
    assert (result["channel_index"], transcript(result)) == ([1, 2], "you")
    talks[0].talk.send_final()
    [metadata] = talks[0].read()
    assert (metadata["type"], metadata["channels"], metadata["duration"]) == ("Metadata", 2, 1.0)


def test_one_error_is_told_however_many_channels_meet_it() -> None:
    shared = Shared(2)
    for number, told in ((0, 1), (1, 0)):
        talk = channel_of("multichannel=true&channels=2", number, shared)
        talk.say(wav(BOTH[:, 0]), {"type": "CloseStream"})
        talk.talk.release(0.0)
        found = talk.read()
        assert len(found) == told
        if told:
            expected = "audio: expected audio of 2 channels, got 1 channel"
            assert found[0]["description"] == expected
