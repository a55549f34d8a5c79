"""Utterances over a real websocket."""

import json
from collections.abc import Iterator
from functools import partial

import pytest

from cortado.model.backends.reference import ReferenceRecognizer
from cortado.model.features.framing import STEP_SECONDS
from cortado.model.streaming.endpoint import Rule, rules_after
from cortado.model.streaming.live import listen
from cortado.model.streaming.pool import Pool
from cortado.tests.model.untrained import noise
from cortado.tests.server.running import END, START, Running, cut, pcm, rounded, running, say, spelt

SPEECH = noise(1, 2.5)
RULES = (Rule(silence=0.2), Rule(length=0.6))  # short, as is what an untrained model hears


@pytest.fixture
def parting(online: ReferenceRecognizer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """A server by these rules."""
    monkeypatch.setattr("cortado.server.engine.Pool", partial(Pool, rules=RULES))
    with running(online) as server:
        yield server


def test_the_ends_of_utterances_are_those_of_the_recording(
    parting: Running, online: ReferenceRecognizer
) -> None:
    heard = say(parting.url, START, *cut(pcm(SPEECH), 1), END)
    steps = list(listen(online, [rounded(SPEECH)], RULES))
    wanted = [step.endpoint for step in steps if step.endpoint]
    found = [message for message in heard.messages if message["type"] == "endpoint"]
    assert len(wanted) > 1
    assert [(one["utterance"], one["start"], one["end"]) for one in found] == [
        (one.utterance, one.start, one.end) for one in wanted
    ]
    for one in found:
        before = heard.messages[: heard.messages.index(one)]
        spoken = [message for message in before if message["type"] == "chars"]
        # the last step of a stream is whole, though its audio may end within it
        assert one["end"] == spoken[-1]["times"][-1] < one["position"] + STEP_SECONDS
        assert one["words"]
    final = heard.messages[-1]
    characters = [one for step in steps for one in step.characters]
    confidences = [sure for one in heard.messages for sure in one.get("confidences", [])]
    assert confidences == [one.confidence for one in characters] + final["confidences"]
    assert final["confidences"] == [one.confidence for one in characters]
    words = [word["text"] for one in heard.messages for word in one.get("words", [])]
    assert words == heard.text.split()
    assert (heard.text, heard.times) == spelt(characters) == (final["text"], final["times"])
    assert final["omitted"] == 0


def test_a_client_may_have_its_stream_as_one_utterance(
    parting: Running, online: ReferenceRecognizer
) -> None:
    start = json.dumps({"type": "start", "endpoints": False})
    heard = say(parting.url, start, *cut(pcm(SPEECH), 2), END)
    assert set(heard.types) == {"ready", "chars", "final"}
    alone = listen(online, [rounded(SPEECH)], rules=())
    assert (heard.text, heard.times) == spelt([one for step in alone for one in step.characters])


def test_a_client_may_say_after_how_much_silence_its_utterances_end(
    parting: Running, online: ReferenceRecognizer
) -> None:
    start = json.dumps({"type": "start", "silence_ms": 300, "alternatives": 2})
    heard = say(parting.url, start, pcm(SPEECH), END)
    found = [message for message in heard.messages if message["type"] == "endpoint"]
    steps = list(listen(online, [rounded(SPEECH)], rules_after(0.3, has_detector=False)))
    assert len(found) == sum(step.endpoint is not None for step in steps)
    usual = say(parting.url, START, pcm(SPEECH), END)
    assert usual.types.count("endpoint") > len(found)
    last = heard.messages[-1]  # a greedy scan has no alternatives
    assert [one["text"] for one in last["texts"]] == [" ".join(w["text"] for w in last["words"])]
    assert "texts" not in usual.messages[-1]
