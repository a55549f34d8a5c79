"""Vosk's door: without sockets, and with what vosk-server's own test clients send."""

import asyncio
import json
from typing import Any

import pytest
import websockets
from websockets.sync.client import connect

from cortado.model.backends.reference import ReferenceRecognizer
from cortado.model.streaming.recordings import transcribe
from cortado.server.doors.vosk import Vosk
from cortado.server.protocol.events import Close
from cortado.server.protocol.messages import Start
from cortado.server.protocol.parsing import UNWEIGHED
from cortado.tests.model.untrained import noise
from cortado.tests.server.doors.conversation import Conversation
from cortado.tests.server.running import PATIENCE, Running, pcm, rounded, spelt

EOF = '{"eof" : 1}'
CONFIG = '{ "config" : { "sample_rate" : 16000 } }'


def answer(talk: Conversation) -> Any:
    """Let the audio so far be processed; return the one answer."""
    talk.talk.send_processed(awaits_commit=False)
    [found] = talk.read()
    return found


def test_each_message_of_audio_has_one_answer() -> None:
    talk = Conversation(Vosk())
    assert talk.say(CONFIG, bytes(6400)) == []
    assert talk.kinds == ["Start", "WhenProcessed"]
    assert talk.events[0] == Start(sample_rate=16_000)
    assert answer(talk) == {"partial": ""}
    assert talk.write("hey y", 0.48) == []
    talk.say(bytes(6400))
    assert answer(talk) == {"partial": "hey y"}
    talk.say(bytes(6400))
    assert talk.end_utterance(0, 0.48, 0.64, 1.6) == []
    assert answer(talk) == {
        "result": [
            {"conf": 0.98, "word": "hey", "start": 0.44, "end": 0.56},
            {"conf": 0.96, "word": "y", "start": 0.6, "end": 0.64},
        ],
        "text": "hey y",
    }
    talk.say(bytes(6400))
    assert answer(talk) == {"partial": ""}


def test_phrases_that_no_search_weighs_are_answered_with_a_warning(server: Running) -> None:
    with connect(server.page.replace("http", "ws", 1)) as client:  # whose search is greedy
        client.send('{"config":{"phrase_list":["ada"]}}')
        client.send(bytes(6400))
        warnings = json.loads(client.recv(PATIENCE))["warnings"]
    assert warnings == [f"phrase_list: {UNWEIGHED}"]


def test_utterances_that_end_in_one_message_have_one_answer_together() -> None:
    talk = Conversation(Vosk())
    talk.say(CONFIG, bytes(64_000))
    for number, text in enumerate(("hey", "you", "")):
        talk.write(text, float(number)) if text else None
        talk.end_utterance(number, float(number), number + 0.5, number + 0.9)
    talk.write("so", 3.0)
    assert answer(talk)["text"] == "hey you"
    talk.say(bytes(6400))
    assert answer(talk) == {"partial": "so"}


def test_alternatives_are_texts_of_the_utterance_the_written_one_first() -> None:
    talk = Conversation(Vosk())
    talk.say({"config": {"sample_rate": 16_000, "max_alternatives": 2}}, bytes(6400))
    assert talk.events[0] == Start(sample_rate=16_000, alternatives=2)
    assert answer(talk) == {"partial": ""}
    talk.write("hey", 0.48, others=[(3, [("hay", 0.5), ("hi", 0.1)])])
    talk.say(bytes(6400))
    talk.end_utterance(0, 0.48, 0.56, 1.6)
    found = answer(talk)["alternatives"]
    assert [(one["text"], one["confidence"]) for one in found] == [("hey", 0.98), ("hay", 0.01)]
    assert [one["result"][0]["word"] for one in found] == ["hey", "hay"]
    more = Conversation(Vosk())
    more.say({"config": {"max_alternatives": 10**6}}, bytes(6400))
    assert more.events[0] == Start(sample_rate=8000, alternatives=10)
    assert answer(more)["warnings"] == ["max_alternatives: there are at most 10"]
    more.write("a b c d", 0.48, others=[(end, [("x", 0.5), ("y", 0.1)]) for end in (1, 3, 5, 7)])
    more.say(bytes(6400))
    more.end_utterance(0, 0.48, 0.72, 1.6)
    assert len(answer(more)["alternatives"]) == 10


def test_the_end_has_one_answer_with_all_that_is_left() -> None:
    talk = Conversation(Vosk())
    talk.say(CONFIG, bytes(6400))
    answer(talk)
    talk.write("hey", 0.48)
    talk.end_utterance(0, 0.48, 0.56, 1.6)
    talk.write(" you", 2.0)
    talk.say(EOF, bytes(6400), EOF)
    assert talk.talk.ending is None, "what a client sends after eof costs no text"
    talk.talk.send_final()
    [last] = talk.read()
    assert last["text"] == "hey you"
    assert [word["word"] for word in last["result"]] == ["hey", "you"]
    talk.talk.release(0.0)
    assert talk.talk.close_expected() == Close(1000)


def test_what_is_configured_is_done_and_what_cannot_be_is_said() -> None:
    config = {"sample_rate": 8000.0, "words": False, "max_alternatives": 2, "model": "x"}
    config["phrase_list"] = ["ada", "lovelace"]
    talk = Conversation(Vosk())
    talk.say({"config": config}, bytes(6400))
    assert talk.events[0] == Start(sample_rate=8000, phrases=("ada", "lovelace"), alternatives=2)
    warning = "model: the model of this server writes the text"
    assert answer(talk) == {"partial": "", "warnings": [warning]}
    talk.write("hey", 0.48)
    talk.say('{"reset" : 1}')
    assert talk.kinds[-1] == "Flush"
    talk.talk.send_flushed()
    assert talk.read() == [{"alternatives": [{"confidence": 0.98, "text": "hey"}]}]


def test_what_is_unknown_in_a_configuration_is_answered_with_a_warning_once() -> None:
    talk = Conversation(Vosk())
    config = {"config": {"partial_words": True, "grammar": ["a"], "foo": 1, "bar": False}}
    talk.say(config, config, bytes(6400))
    assert answer(talk)["warnings"] == [
        f"{name}: it has no effect here" for name in ("partial_words", "grammar", "foo")
    ]


def test_what_comes_too_late_or_is_wrong_is_said() -> None:
    talk = Conversation(Vosk())
    late = {"sample_rate": 8000, "max_alternatives": 3, "phrase_list": ["ada"]}
    talk.say(CONFIG, bytes(6400), {"config": late}, {"config": {"words": True}})
    assert answer(talk)["warnings"] == [
        "sample_rate: it stays 16000 once there is audio",
        "max_alternatives: it stays 0 once there is audio",
        "phrase_list: it stays [] once there is audio",
    ]
    talk.say(bytes(6400))
    talk.write("hey", 0.48)
    talk.end_utterance(0, 0.48, 0.56, 1.6)
    assert answer(talk)["text"] == "hey"
    talk.say('{"config":{"words":"perhaps"}}')
    talk.talk.release(0.0)
    [error] = talk.read()
    assert error["error"].startswith("expected config.words to be a valid boolean")


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "[]",
        '{"config":1}',
        '{"config":{"phrase_list":"a"}}',
        '{"config":{"sample_rate":"8"}}',
        '{"config":{"sample_rate":1e99}}',
        '{"config":{"phrase_list":[' + "1," * 1001 + "1]}}",
    ],
)
def test_an_unknown_message_ends_the_stream_with_an_error(frame: str) -> None:
    talk = Conversation(Vosk())
    talk.say(frame)
    talk.talk.release(0.0)
    [error] = talk.read()
    assert error["error"].startswith("expected ")


def test_the_published_test_client_reads_what_was_said(
    at_rest: Running, online: ReferenceRecognizer
) -> None:
    """Exactly what websocket/test.py of alphacep/vosk-server does, step by step."""
    samples = noise(1, 2.5)
    data = pcm(samples)

    async def run_test(uri: str) -> list[Any]:
        answers = []
        async with websockets.connect(uri) as websocket:
            await websocket.send('{ "config" : { "sample_rate" : %d } }' % 16_000)  # noqa: UP031
            buffer_size = int(16_000 * 0.2) * 2
            for place in range(0, len(data), buffer_size):
                await websocket.send(data[place : place + buffer_size])
                answers.append(json.loads(await websocket.recv()))
            await websocket.send('{"eof" : 1}')
            answers.append(json.loads(await websocket.recv()))
            await asyncio.wait_for(websocket.wait_closed(), PATIENCE)
        return answers

    answers = asyncio.run(run_test(at_rest.url.removesuffix("/v1/stream")))
    assert len(answers) == 14
    text = spelt(transcribe(online, rounded(samples)))[0].strip()
    assert " ".join(one["text"] for one in answers if "text" in one) == text
    partials = [one["partial"] for one in answers if "partial" in one]
    assert partials == sorted(partials, key=len)
    assert partials[-1] != ""
    assert all(text.startswith(partial) for partial in partials)
