"""The clients in Python and JavaScript against real servers whose connections break."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import jiwer
import numpy as np
import pytest
from numpy.typing import NDArray

from cortado.tests import needs
from cortado.tests.clients.cutting import Way, way_to
from cortado.tests.clients.serving import ROOT, Served, serving, transcribe
from cortado.tests.clients.speech import write
from cortado.tests.server.running import wait_for

HERE = Path(__file__).parent
CLIENTS = {
    "python": [sys.executable, "-m", "cortado.tests.clients.talk"],
    "javascript": ["node", "--experimental-websocket", str(HERE / "web" / "talk.js")],
}
ADDRESS = "ws://127.0.0.1:{}/v1/stream"

Heard = list[list[Any]]
Meddle = Callable[[], None]


@pytest.fixture(scope="module")
def twice(spoken: NDArray[np.float32], folder: Path) -> Path:
    """The recording two times, with a silence between that ends an utterance."""
    silence = np.zeros(16_000 * 3, np.float32)
    return write(folder / "twice.wav", np.concatenate([spoken, silence, spoken]))


@pytest.fixture(scope="module")
def expected(model: Path, twice: Path) -> Heard:
    [found] = transcribe(model, twice)
    return [[each["text"], each["time"]] for each in found["characters"]]


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> list[str]:
    """The command of a client that speaks a file and prints what came."""
    if request.param == "javascript":
        needs.program("node", "nodejs")
    return CLIENTS[request.param]


def talk(
    client: list[str], port: int, file: Path, *arguments: object, meddle: Meddle | None = None
) -> dict[str, Any]:
    """Return what a client was told; `meddle` is done after it has begun to speak."""
    command = [*client, ADDRESS.format(port), str(file), *map(str, arguments)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        while (line := process.stderr.readline()) != "ready\n":
            assert line, "the client ended before it was ready"
        if meddle:
            meddle()
        out, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    return dict(json.loads(out))


def test_the_client_is_told_what_transcribe_tells(
    client: list[str], server: Served, twice: Path, expected: Heard
) -> None:
    told = talk(client, server.port, twice)
    assert told["characters"] == expected
    assert "lost" not in told["states"]
    assert told["restarts"] == []


def cut(way: Way, count: int) -> Meddle:
    """Cut a way so often, each time once the client has come again."""

    def cutting() -> None:
        for cuts in range(count):
            assert wait_for(lambda cuts=cuts: way.connections > cuts)  # type: ignore[misc]
            time.sleep(0.2)  # some of the speech
            way.open = False
            way.cut()
            time.sleep(0.3)  # an attempt that is refused
            way.open = True

    return cutting


def test_no_character_is_lost_or_doubled_when_the_connection_is_cut_again_and_again(
    client: list[str], server: Served, twice: Path, expected: Heard
) -> None:
    with way_to(server.port) as way:
        told = talk(client, way.port, twice, 2, meddle=cut(way, 2))
        assert way.connections > 2
    assert "lost" in told["states"]
    assert told["restarts"] == [], "the server went on with the stream that it had"
    assert told["characters"] == expected


def test_a_pause_gives_the_stream_back_and_takes_it_up_again(
    client: list[str], server: Served, twice: Path, expected: Heard
) -> None:
    told = talk(client, server.port, twice, 0, 60)
    assert "paused" in told["states"]
    assert told["characters"] == expected


@pytest.mark.parametrize("client", ["python"], indirect=True)  # the page's tests restart one too
def test_a_server_that_is_restarted_hears_what_was_spoken_in_between(
    client: list[str], model: Path, folder: Path, twice: Path, expected: Heard
) -> None:
    with ExitStack() as running:
        first = running.enter_context(serving(model, folder / "first.log"))
        way = running.enter_context(way_to(first.port))

        def restart() -> None:
            time.sleep(2)
            first.process.kill()
            way.cut()
            way.target = running.enter_context(serving(model, folder / "second.log")).port

        told = talk(client, way.port, twice, 1, meddle=restart)
    assert len(told["restarts"]) == 1
    place = told["restarts"][0]
    before = [pair for pair in told["characters"] if pair[1] < place]
    assert before == expected[: len(before)], "what was told stands"
    times = [time for _, time in told["characters"]]
    assert times == sorted(times)
    assert told["duration"] > times[-1] > place
    last = "".join(text for text, time in expected if time > place + 4)
    after = "".join(text for text, time in told["characters"] if time > place + 4)
    # Its words are those that were said, but for a few: the mean of the features began anew.
    assert jiwer.wer(last, after) < 0.5, f"the second utterance is heard as it was: {last}; {after}"
