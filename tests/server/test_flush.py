"""A stream that is flushed: all letters come, times go on, and silence is allowed."""

import json

import pytest
from websockets.sync.client import connect

from cortado.model.backends.reference import ReferenceRecognizer
from cortado.model.emission import Character
from cortado.model.streaming.update import Update
from cortado.model.streaming.utterances import Endpoint
from cortado.server.protocol.messages import ErrorCode
from cortado.server.timeline import Timeline
from cortado.tests.model.untrained import noise
from cortado.tests.server.running import (
    END,
    FLUSH,
    PATIENCE,
    START,
    Running,
    pcm,
    rounded,
    running,
    say,
    written,
)

FIRST, SECOND = noise(1, 1.0), noise(2, 1.5)


def test_each_part_is_written_as_it_is_alone(at_rest: Running, online: ReferenceRecognizer) -> None:
    heard = say(at_rest.url, START, pcm(FIRST), FLUSH, pcm(SECOND), FLUSH, FLUSH, END)
    first, second = (written(online, rounded(part)) for part in (FIRST, SECOND))
    assert heard.types.count("flushed") == 3
    space = " " if first[0][-1] != " " != second[0][0] else ""
    assert heard.text == f"{first[0]}{space}{second[0]}" == heard.messages[-1]["text"]
    moved = [round(time + 1.0, 3) for time in second[1]]
    assert heard.times == [*first[1], *moved[: len(space)], *moved]
    places = [m["position"] for m in heard.messages if m["type"] == "flushed"]
    assert places == [1.0, 2.5, 2.5]
    flushed = heard.types.index("flushed")
    assert "".join(m["text"] for m in heard.messages[1:flushed]) == first[0]


def test_a_stream_that_is_flushed_keeps_its_place(online: ReferenceRecognizer) -> None:
    with running(online) as server, connect(server.url) as speaker:
        speaker.send(START)
        assert "ready" in speaker.recv(PATIENCE)
        server.service.engine.capacity.streams = 0  # the machine became busy
        assert say(server.url, START).error == ErrorCode.TOO_MANY_STREAMS
        for frame, answer in ((FLUSH, "flushed"), (END, "final")):
            speaker.send(frame)
            assert json.loads(speaker.recv(PATIENCE))["type"] == answer


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        (
            ['{"type":"start","keep":true}', FLUSH],
            "expected flush in a stream that is not kept, got it in one that is",
        ),
        (
            [START, FLUSH, '{"type":"suspend"}'],
            "expected a stream without flush to suspend, got one with it",
        ),
        ([FLUSH], "expected start or resume, got flush"),
        ([START, END, '{"type":"keep_alive"}'], "expected nothing after end, got keep_alive"),
    ],
)
def test_flush_has_its_place(frames: list[str], message: str, at_rest: Running) -> None:
    heard = say(at_rest.url, *frames)
    assert heard.error == ErrorCode.UNEXPECTED_MESSAGE
    assert heard.messages[-1]["message"] == message


def update(text: str, time: float, ended: int | None = None) -> Update:
    characters = [Character(one, time) for one in text]
    endpoint = None if ended is None else Endpoint(ended, time, time)
    return Update(characters, time + 1, False, endpoint=endpoint)


def test_utterances_are_counted_on_and_parted_by_one_space() -> None:
    line = Timeline(spaced=True)
    assert line.place(update("a", 0.4, 0)) == update("a", 0.4, 0)
    line.place(update("b", 0.8))
    line.restart(2.0)
    moved = line.place(update("c", 0.4, 0))
    assert "".join(one.text for one in moved.characters) == " c"
    assert [one.time for one in moved.characters] == [2.4, 2.4]
    assert (moved.endpoint, moved.position) == (Endpoint(2, 2.4, 2.4), 3.4)
    line.place(update("d ", 0.4, 1))
    line.restart(5.0)
    assert line.place(update("e", 0.04, 0)).endpoint == Endpoint(4, 5.04, 5.04)
    assert line.place(update("f", 0.08)).characters[0].text == "f"


def test_an_error_names_every_message(at_rest: Running) -> None:
    heard = say(at_rest.url, json.dumps({"type": "other"}))
    assert '"flush", "keep_alive"' in heard.messages[-1]["message"]
