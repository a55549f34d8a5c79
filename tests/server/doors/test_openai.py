"""OpenAI's door without sockets: Realtime sessions, and the forms of a file's answer."""

import base64
import json
import math
import time
from typing import Any

import pytest

from cortado.model.captions import Word
from cortado.model.search.phrases import expecting
from cortado.model.vocabulary import Vocabulary
from cortado.server.doors.audio import Decoder
from cortado.server.doors.openai.configuration import Configuration
from cortado.server.doors.openai.prompt import LETTERS, expected
from cortado.server.doors.openai.realtime import Realtime
from cortado.server.doors.openai.transcription import EFFECTIVE, Wanted, answer, read
from cortado.server.doors.upload import Heard
from cortado.server.protocol.messages import ErrorCode, Start
from cortado.server.protocol.parsing import UNWEIGHED
from cortado.server.short_lived import ShortLived
from cortado.server.signing import Signer
from cortado.tests.server.doors.conversation import Conversation

SECOND = base64.b64encode(bytes(48_000)).decode()
ITEM = "item_sess_1_"
TRANSCRIPTION = "conversation.item.input_audio_transcription"


def session(**limits: Any) -> Conversation:
    return Conversation(Realtime("sess_1", Configuration("sess_1", "small"), 80), **limits)


def update(**given: Any) -> dict[str, Any]:
    inside = {"type": "transcription", "audio": {"input": given}}
    return {"type": "session.update", "session": inside}


def append(audio: str = SECOND) -> dict[str, Any]:
    return {"type": "input_audio_buffer.append", "audio": audio}


COMMIT, CLEAR = {"type": "input_audio_buffer.commit"}, {"type": "input_audio_buffer.clear"}


def kinds(messages: list[Any]) -> list[str]:
    return [message["type"] for message in messages]


def test_a_session_says_how_it_stands() -> None:
    talk = session()
    [created] = talk.read()
    given = created["session"]["audio"]["input"]
    assert (created["type"], created["session"]["type"]) == ("session.created", "transcription")
    assert given["format"] == {"type": "audio/pcm", "rate": 24_000}
    assert given["transcription"]["model"] == "small"
    [updated] = talk.say(update(format={"type": "audio/pcmu"}, turn_detection=None))
    given = updated["session"]["audio"]["input"]
    assert (given["format"], given["turn_detection"]) == ({"type": "audio/pcmu"}, None)
    assert updated["event_id"] != created["event_id"]


@pytest.mark.parametrize(
    ("kind", "data", "rate"),
    [
        ("audio/pcm", b"\x00\x40", 24_000),
        ("audio/pcmu", b"\x8f", 8000),
        ("audio/pcma", b"\xa5", 8000),
    ],
)
def test_audio_of_each_format_is_read(kind: str, data: bytes, rate: int) -> None:
    talk = session()
    talk.say(update(format={"type": kind}), append(base64.b64encode(data).decode()))
    assert isinstance(talk.events[0], Start)
    assert talk.events[0].sample_rate == rate
    assert talk.audio == pytest.approx([0.5], abs=0.02)


def test_the_server_ends_an_utterance_and_completes_its_item() -> None:
    talk = session()
    talk.read()
    assert talk.say(append()) == []
    started, delta = talk.write("hey", 0.48)
    assert (started["type"], started["audio_start_ms"]) == (
        "input_audio_buffer.speech_started",
        440,
    )
    assert (delta["type"], delta["delta"]) == (f"{TRANSCRIPTION}.delta", "hey")
    ended = talk.end_utterance(0, 0.48, 0.56, 1.6)
    assert kinds(ended) == [
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "conversation.item.added",
        f"{TRANSCRIPTION}.completed",
    ]
    assert ended[0]["audio_end_ms"] == 560
    assert ended[1]["previous_item_id"] is None
    assert ended[3]["transcript"] == "hey"
    assert ended[3]["usage"] == {"type": "duration", "seconds": 1.6}
    names = {one["item_id"] for one in [started, delta, ended[0], ended[1], ended[3]]}
    assert names == {f"{ITEM}0"}
    assert talk.write(" ", 2.0) == []
    [started, delta] = talk.write("you", 2.04)
    assert (delta["delta"], delta["item_id"]) == ("you", f"{ITEM}1")
    last = talk.end_utterance(1, 2.04, 2.12, 3.0)
    assert (last[1]["previous_item_id"], last[3]["transcript"]) == (f"{ITEM}0", "you")
    assert last[3]["usage"]["seconds"] == 1.4


def test_a_client_that_commits_itself_decides_what_an_item_is() -> None:
    talk = session()
    talk.say(update(turn_detection=None), append())
    assert kinds(talk.write("hey", 0.48)) == [f"{TRANSCRIPTION}.delta"]
    assert talk.end_utterance(0, 0.48, 0.56, 1.6) == []
    assert kinds(talk.write(" you", 2.0)) == [f"{TRANSCRIPTION}.delta"]
    assert talk.say(COMMIT) == []
    assert talk.kinds == ["Start", "Flush"]
    talk.talk.send_flushed()
    committed, added, completed = talk.read()
    assert (committed["item_id"], completed["transcript"]) == (f"{ITEM}0", "hey you")
    assert added["item"]["content"] == [{"type": "input_audio", "transcript": "hey you"}]
    [error] = talk.say(COMMIT | {"event_id": "mine"})
    assert (error["type"], error["error"]["event_id"]) == ("error", "mine")
    assert talk.talk.ending is None


def test_a_long_item_has_its_last_characters_and_says_how_many_it_omits() -> None:
    talk = session()
    talk.say(update(turn_detection=None), append())
    for number in range(100):
        [delta] = talk.write(f"{number:03} ", 0.16 * number)
        assert delta["delta"] == f"{' ' if number else ''}{number:03}"
    talk.say(COMMIT)
    talk.talk.send_flushed()
    completed = talk.read()[-1]
    assert completed["transcript"] == " ".join(f"{number:03}" for number in range(80, 100))
    assert completed["omitted"] == 400 - 80
    talk.say(append(), COMMIT)
    talk.talk.send_flushed()
    completed = talk.read()[-1]
    assert (completed["transcript"], completed["omitted"]) == ("", 0)


def test_words_have_log_probabilities_where_they_are_wanted() -> None:
    talk = session()
    inside = {"type": "transcription", "include": ["item.input_audio_transcription.logprobs"]}
    state = talk.say({"type": "session.update", "session": inside})[-1]["session"]
    assert state["include"] == inside["include"]
    talk.say(append())
    first, second = talk.write("he", 0.48)[-1], talk.write("y you", 0.6)[-1]
    assert [one["token"] for one in first["logprobs"] + second["logprobs"]] == ["he", "y", " you"]
    completed = talk.end_utterance(0, 0.48, 0.8, 1.6)[-1]
    hey, you = completed["logprobs"]
    assert (hey["token"], you["token"], you["bytes"]) == ("hey", " you", list(b" you"))
    assert hey["logprob"] == pytest.approx(math.log(0.99), abs=1e-4)
    assert you["logprob"] == pytest.approx(math.log(0.96), abs=1e-4)
    assert talk.say({"type": "session.update", "session": inside | {"include": None}})
    assert talk.write(" so", 2.0)[-1]["logprobs"] is None
    [error] = talk.say({"type": "session.update", "session": inside | {"include": ["x"]}})
    assert error["error"]["message"].startswith("expected session.include.0 to be 'item.")


def test_audio_that_is_cleared_makes_no_item() -> None:
    talk = session()
    talk.read()
    assert kinds(talk.say(CLEAR)) == ["input_audio_buffer.cleared"]
    talk.say(append())
    talk.write("hey", 0.48)
    assert talk.say(CLEAR) == []
    talk.talk.send_flushed()
    assert kinds(talk.read()) == ["input_audio_buffer.cleared"]
    assert talk.write("you", 1.2)[-1]["item_id"] == f"{ITEM}1"  # what was thrown away is of 0
    talk.say(append(), COMMIT)
    talk.talk.send_flushed()
    [committed] = [one for one in talk.read() if one["type"] == "input_audio_buffer.committed"]
    assert (committed["item_id"], committed["previous_item_id"]) == (f"{ITEM}1", None)


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        *((frame, "expected ") for frame in ("", "[]", "{", b"\x00", '{"type":5}', "[" * 5000)),
        (
            '{"session":{"include":[' + "1," * 1001 + "1]}}",
            "expected at most 1000 commas, got 1001",
        ),
        ("hello", "expected a JSON object of type session.update, input_audio_buffer.append, "),
        ('{"type":"response.create"}', "expected a JSON object of type session.update, "),
        ('{"type":"input_audio_buffer.append"}', "expected input_audio_buffer.append.audio to be "),
        ('{"type":"input_audio_buffer.append","audio":7}', "expected input_audio_buffer.append.a"),
        (json.dumps(append("not base64!")), "audio: expected base64, got another text: "),
        ('{"type":"session.update"}', "expected session.update.session to be "),
        ('{"type":"session.update","session":{"type":"realtime"}}', "expected session.type to be "),
        (json.dumps(update(format={"type": "audio/mp3"})), "expected session.audio.input.format."),
        (
            json.dumps(update(format={"type": "audio/pcm", "rate": 16_000})),
            "session.audio.input.format.rate: expected 24000 for audio/pcm, got 16000",
        ),
        (
            json.dumps(update(turn_detection={"type": "always"})),
            "expected session.audio.input.turn_detection.type to be 'server_vad' or ",
        ),
        (
            json.dumps(update(transcription={"prompt": "A " * 8000, "keywords": ["a" * 385]})),
            "prompt: expected at most 16384 characters, those of keywords included, got 16385",
        ),
    ],
)
def test_a_message_that_means_nothing_is_answered_and_the_session_goes_on(
    frame: str | bytes, expected: str
) -> None:
    talk = session()
    talk.read()
    [error] = talk.say(frame)
    assert (error["type"], error["error"]["type"]) == ("error", "invalid_request_error")
    assert error["error"]["message"].startswith(expected)
    assert talk.talk.ending is None
    assert talk.say(append()) == []


def test_a_fault_of_the_server_is_not_taken_for_its_client_s_mistake(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def faulty(*_: object) -> None:
        raise ValueError("a fault of ours")

    monkeypatch.setattr(Decoder, "push", faulty)
    with pytest.raises(ValueError, match="a fault of ours"):
        session().say(append())


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"format": {"type": "audio/pcmu"}}, "format"),
        ({"transcription": {"prompt": "Ada"}}, "transcription.prompt"),
        (
            {"turn_detection": {"type": "server_vad", "silence_duration_ms": 500}},
            "turn_detection.silence_duration_ms",
        ),
    ],
)
def test_what_a_stream_begins_with_stays_once_there_is_audio(
    given: dict[str, Any], where: str
) -> None:
    talk = session()
    talk.say(append())
    [error] = talk.say(update(**given))
    message = f"session.audio.input.{where}: expected no change after audio, got one"
    assert error["error"]["message"] == message
    [updated] = talk.say(update(turn_detection={"type": "server_vad"}))
    assert updated["session"]["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": 24_000}


@pytest.mark.parametrize(("asked", "got"), [(450, 450), (0, 300), (10**6, 5000), (None, None)])
def test_a_client_says_which_silence_ends_an_utterance(asked: int | None, got: int | None) -> None:
    talk = session()
    turns = {"type": "server_vad", "silence_duration_ms": asked}
    state = talk.say(update(turn_detection=turns), append())[-1]["session"]
    assert state["audio"]["input"]["turn_detection"].get("silence_duration_ms") == got
    assert talk.events[0] == Start(sample_rate=24_000, silence_ms=got)


@pytest.mark.parametrize("form", ["now", "earlier"])
def test_a_session_expects_the_phrases_of_its_prompt(form: str) -> None:
    talk = session()
    said = {"model": "whisper-1", "prompt": "Ada Lovelace, ZyntriQix", "keywords": ["gyre"]}
    frame = update(transcription=said)
    if form == "earlier":
        frame = {"type": "transcription_session.update", "session": {}}
        frame["session"] = {"input_audio_transcription": said}
    answer = talk.say(frame, append())[-1]
    assert answer["type"] == frame["type"] + "d"  # a client of the earlier form waits for its own
    state = answer["session"]["audio"]["input"]["transcription"]
    assert state["prompt"] == "gyre, Ada Lovelace, ZyntriQix"
    phrases = ("gyre", "Ada Lovelace", "ZyntriQix")
    assert talk.events[0] == Start(sample_rate=24_000, phrases=phrases)


def test_a_search_that_weighs_no_phrases_leaves_a_prompt_out() -> None:
    greedy = Configuration("sess_1", "small", weighs_phrases=False)
    said = greedy.update({"audio": {"input": {"transcription": {"prompt": "Ada"}}}})
    place = "session.audio.input.transcription.prompt"
    assert [one.partition(": it")[0] for one in said] == [place]
    other = Configuration("sess_1", "small")
    prose = {
        "audio": {"input": {"transcription": {"prompt": "expect words related to technology"}}}
    }
    assert other.update(prose) == [f"{place}: it has no effect: there are no names in it"]
    assert greedy.content()["audio"]["input"]["transcription"]["prompt"] is None
    warning = f"prompt: {UNWEIGHED}"
    assert read({"prompt": ["Ada"]}, "small", weighs_phrases=False).warnings == [warning]


@pytest.mark.parametrize(
    ("prompt", "phrases"),
    [
        ("", ()),
        ("Ada Lovelace", ("Ada Lovelace",)),
        ("gyre; naas\nAda Lovelace,, 42", ("gyre", "naas", "Ada Lovelace")),
        ("Glossary: PULSE, RAPT, B.R.I.C.K., RAPT.", ("PULSE", "RAPT", "B.R.I.C.K")),
        (
            "The talk is about GPT-3, Digique Plus and the work of Ada Lovelace. We begin in 1843.",
            ("GPT-3", "Digique Plus", "Ada Lovelace"),
        ),
        ("Umm, let me think like, hmm... Okay, here's what I'm, like, thinking.", ()),
        ("expect words related to technology", ()),
        ("ZyntriQix begins a sentence of prose, McDonald another.", ("ZyntriQix", "McDonald")),
    ],
)
def test_a_prompt_is_a_list_of_phrases_or_prose_with_names(
    prompt: str, phrases: tuple[str, ...]
) -> None:
    assert expected(prompt).phrases == phrases


def test_a_phrase_that_is_too_long_is_not_even_normalised() -> None:
    """Its accents would be sorted, which takes half a second: each is below the one before it."""
    began = time.thread_time()
    assert expected("a" + "\u0300\u0316" * 8000) == ((), 1)
    assert time.thread_time() - began < 0.1


def test_a_long_prompt_fits_a_stream() -> None:
    found = expected(", ".join(f"phrase {k} of many" for k in range(200)))
    assert sum(map(len, found.phrases)) <= LETTERS
    streets = expected(
        ", ".join(f"Straße{'abcdefghij'[n % 10] * (n // 10 + 1)}" for n in range(90))
    )
    assert streets.left_out > 0
    expecting(streets.phrases, Vocabulary())  # with "ss" for each "ß", they still fit
    assert (len(found.phrases) + found.left_out, found.left_out > 0) == (200, True)
    expecting(found.phrases, Vocabulary())
    warnings = read({"prompt": [", ".join(f"p{k}" for k in range(101))]}, "small").warnings
    assert warnings == ["prompt: there is no room for 1 of its phrases"]


@pytest.mark.parametrize("is_old", [False, True])
def test_what_has_no_effect_in_a_session_is_answered_with_a_warning(is_old: bool) -> None:
    talk = session()
    talk.read()
    said = {"model": "whisper-1", "language": "de", "prompt": "Ada"}
    turns = {"type": "server_vad", "silence_duration_ms": 100, "threshold": 0.5}
    asked: dict[str, Any] = {"transcription": said, "turn_detection": turns}
    fields: dict[str, Any] = {"audio": {"input": asked}, "tracing": "auto"}
    if is_old:
        fields = {"input_audio_transcription": said, "turn_detection": turns, "tracing": "auto"}
    [updated] = talk.say({"type": "session.update", "session": fields})
    place = "session.audio.input"
    assert sorted(updated["warnings"]) == [
        f"{place}.transcription.language: it has no effect here",
        f"{place}.transcription.model: it stays small",
        f"{place}.turn_detection.silence_duration_ms: it stays 300",
        f"{place}.turn_detection.threshold: it has no effect here",
        "session.tracing: it has no effect here",
    ]
    # what a session says of itself, and English, are no wishes
    again = updated["session"]
    again["audio"]["input"]["transcription"]["language"] = "en"
    [updated] = talk.say({"type": "session.update", "session": again})
    assert updated["warnings"] is None


def test_a_session_is_carried_whole_by_a_secret() -> None:
    one = Configuration("sess_1", "small")
    asked: dict[str, Any] = {
        "format": {"type": "audio/pcma"},
        "transcription": {"prompt": "é" * 99 + "a,b c d e f"},
    }
    asked["turn_detection"] = {"type": "server_vad", "silence_duration_ms": 700}
    one.update({"audio": {"input": asked}, "include": ["item.input_audio_transcription.logprobs"]})
    secrets = ShortLived(Signer("key"))
    secret, _ = secrets.make("phone-app", 60, one.carried())
    other, found = Configuration("sess_2", "small"), secrets.read(secret)
    assert found is not None
    other.update(found.session)
    assert other.chosen == one.chosen
    longest = {"keywords": [f"{'é' * 90}{chr(97 + k)}" for k in range(10)]}
    one.update({"audio": {"input": {"transcription": longest}}})
    assert len(one.chosen.phrases) == LETTERS // 91
    assert secrets.read(secrets.make("a" * 40, 60, one.carried())[0]) is not None


def test_answers_to_who_does_not_read_are_bounded() -> None:
    talk = session()
    for _ in range(300):
        talk.talk.receive_data("{}", 0.0)
        list(talk.talk.events_received())
        talk.talk.events_handled(0.0)
    assert talk.talk.ending == ErrorCode.SLOW_CLIENT


HEARD = Heard(
    "1f", "small", [[Word("hey", 0.4, 0.56), Word("you", 0.6, 0.7)], [Word("so", 2.0, 2.2)]], 3.0
)


def test_a_file_is_answered_in_each_format() -> None:
    assert answer(Wanted("text"), HEARD, "english") == "hey you so\n"
    assert json.loads(answer(Wanted("json"), HEARD, "english")) == {
        "text": "hey you so",
        "usage": {"type": "duration", "seconds": 3.0},
    }
    assert answer(Wanted("srt"), HEARD, None).startswith(
        "1\n00:00:00,400 --> 00:00:01,400\nhey you\n"
    )
    assert answer(Wanted("vtt"), HEARD, None).startswith("WEBVTT\n\n00:00:00.400 --> ")
    wanted = Wanted("verbose_json", granularities=("word", "segment"))
    verbose = json.loads(answer(wanted, HEARD, "english"))
    assert (verbose["language"], verbose["duration"]) == ("english", 3.0)
    assert verbose["words"][1] == {"word": "you", "start": 0.6, "end": 0.7}
    assert verbose["segments"][0] == {"id": 0, "start": 0.4, "end": 0.7, "text": "hey you"}


def test_a_form_is_read_or_refused() -> None:
    fields = {"model": ["whisper-1"], "timestamp_granularities[]": ["word"], "prompt": ["x"]}
    found = read(fields | {"stream": ["true"], "language": ["de"]}, "small")
    assert (found.stream, found.granularities) == (True, ["word"])
    without = ["timestamp_granularities", "model", "language"]
    assert [one.split(":")[0] for one in found.warnings] == without
    assert found.phrases == ("x",)
    assert read({"include[]": ["logprobs"]}, "small").logprobs
    assert read({name: [""] for name in EFFECTIVE}, "small") == Wanted()
    assert read({"response_format": ["text", ""]}, "small") == Wanted("text")
    for other in ({"include[]": ["x"]}, {"include[]": ["logprobs"], "response_format": ["srt"]}):
        assert [one.split(":")[0] for one in read(other, "small").warnings] == ["include"]
    unknown = {"foo": ["1"], "temperature": ["0.2"], "response_format": ["verbose_json"]}
    assert read(unknown, "small").warnings == [
        "foo: it has no effect here",
        "temperature: it has no effect here",
    ]
    times = {"timestamp_granularities[]": ["word"]}
    assert read(times | {"response_format": ["verbose_json"]}, "small").warnings == []
    assert read(times, "small").warnings == [
        "timestamp_granularities: there are times in verbose_json, not streamed"
    ]
    events = {"response_format": ["srt"], "stream": ["true"]}
    assert read(events, "small").warnings == [
        "response_format: text that is streamed comes as events, not as srt"
    ]
    with pytest.raises(ValueError, match=r"response_format: expected json, .* got 'xml'"):
        read({"response_format": ["xml"]}, "small")
    with pytest.raises(ValueError, match="timestamp_granularities: expected word or segment"):
        read({"timestamp_granularities[]": ["letter"]}, "small")
