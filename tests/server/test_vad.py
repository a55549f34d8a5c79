"""A server whose streams a voice activity detector hears too, over real websockets."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cortado.clients.commands.replay import replayed
from cortado.model.backends.reference import ReferenceRecognizer
from cortado.model.streaming.endpoint import QUIET_RULES
from cortado.model.streaming.live import listen
from cortado.model.streaming.snapshot import Snapshot
from cortado.model.streaming.vad import load_vad
from cortado.server.protocol.messages import ErrorCode
from cortado.server.recorder import read
from cortado.server.signing import Signer
from cortado.tests.model.untrained import noise
from cortado.tests.server.running import (
    END,
    START,
    Running,
    cut,
    pcm,
    resume,
    rounded,
    running,
    say,
    spelt,
)
from cortado.tests.server.test_resume import KEY, suspended

pytest.importorskip("onnxruntime")
pytest.importorskip("silero_vad")

SPEECH = rounded(noise(1, 4.0))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recorded")


@pytest.fixture(scope="module")
def hearing(online: ReferenceRecognizer, folder: Path) -> Iterator[Running]:
    with running(online, vad=True, state_key=KEY, record=folder) as server:
        yield server


@pytest.fixture(scope="module")
def plain(online: ReferenceRecognizer) -> Iterator[Running]:
    with running(online, state_key=KEY) as server:
        yield server


def test_a_stream_is_that_of_the_library_and_of_its_recording(
    hearing: Running, online: ReferenceRecognizer, folder: Path
) -> None:
    said = say(hearing.url, START, *cut(pcm(SPEECH), 1), END)
    steps = list(listen(online, [SPEECH], vad=load_vad()))
    characters = [one for step in steps for one in step.characters]
    assert (said.text, said.times) == spelt(characters)
    wanted = [(step.endpoint.start, step.endpoint.end) for step in steps if step.endpoint]
    told = [(one["start"], one["end"]) for one in said.messages if one["type"] == "endpoint"]
    assert told == wanted
    assert hearing.is_at_rest()
    recorded = read(folder / f"{said.messages[0]['session']}.jsonl")
    assert recorded.facts["vad"] == "silero"
    assert replayed(online, recorded).value == recorded.digest


def test_a_stream_that_is_suspended_goes_on_where_the_detector_is(
    hearing: Running, online: ReferenceRecognizer
) -> None:
    first, state = suspended(hearing.url, START, pcm(SPEECH[:20_000]))
    snapshot = Snapshot.from_bytes(Signer(KEY).unsign(state))
    assert (snapshot.rules, bool(snapshot.heard)) == (QUIET_RULES, True)
    second = say(hearing.url, resume(state=state), pcm(SPEECH[20_000:]), END)
    steps = listen(online, [SPEECH], vad=load_vad())
    characters = [one for step in steps for one in step.characters]
    assert (first.text + second.text, first.times + second.times) == spelt(characters)


def test_a_stream_that_began_with_the_detector_is_refused_by_a_server_without(
    hearing: Running, plain: Running
) -> None:
    _, state = suspended(hearing.url, START, pcm(SPEECH[:20_000]))
    refused = say(plain.url, resume(state=state))
    assert refused.error == ErrorCode.INVALID_STATE
    assert "began without a voice activity detector" in refused.messages[-1]["message"]
    assert plain.is_at_rest()


def test_a_stream_that_began_without_the_detector_goes_on_without(
    hearing: Running, plain: Running, online: ReferenceRecognizer
) -> None:
    first, state = suspended(plain.url, START, pcm(SPEECH[:20_000]))
    second = say(hearing.url, resume(state=state), pcm(SPEECH[20_000:]), END)
    characters = [one for step in listen(online, [SPEECH]) for one in step.characters]
    assert (first.text + second.text, first.times + second.times) == spelt(characters)
