"""A server that is stopped by a signal, as supervisors do it: real processes."""

import asyncio
import json
import signal
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import websockets
from websockets.sync.client import connect

from cortado.clients.cli import main
from cortado.model.checkpoint_reader import DEFAULT
from cortado.server.run import EXIT_CUT_SHORT
from cortado.tests.clients.serving import ENVIRONMENT, ROOT, Served, serving
from cortado.tests.model.untrained import noise
from cortado.tests.server.running import KEPT, PATIENCE, START, Heard, listened, pcm, wait_for

CUT_SHORT = {EXIT_CUT_SHORT + one for one in (signal.SIGTERM, signal.SIGINT)}  # either may be last
# `cortado serve` with streams that do not take leave.
STAYS = """
import asyncio, sys
from cortado.clients.cli import main
from cortado.server.service import Service
async def drain(service):
    print("leaving", flush=True)
    await asyncio.sleep(600)
Service.drain = drain
sys.exit(main())
"""
# `cortado serve` with a model that takes its time.
LOADS = """
import sys, time
from cortado.clients.cli import main
import cortado.server.run as run
def load(settings):
    print("loading", flush=True)
    time.sleep(600)
run.load = load
sys.exit(main(["serve", "--port", "0"]))
"""
# `cortado serve` with a model that takes its time when it is read again.
LOADS_AGAIN = """
import sys, time
from cortado.clients.cli import main
import cortado.server.service as service
def read_again(settings):
    print("loading", flush=True)
    time.sleep(600)
def read_model(settings):
    service.read_model = read_again
    return before(settings)
before, service.read_model = service.read_model, read_model
sys.exit(main())
"""
# `cortado serve` with a store that waits for ten minutes for who holds its file.
WAITS = """
import sys
from cortado.clients.cli import main
import cortado.server.store as store
store.BUSY_SECONDS = 600
sys.exit(main())
"""
# `cortado serve` whose model is in the midst of a step for as long as the process lasts.
STEPS = """
import sys, torch
from cortado.clients.cli import main
from cortado.model.backends.reference import ReferenceStepper
from cortado.server.engine import Engine
def push(*audio):
    def step(*arguments):
        print("stepping", flush=True)
        while True:
            torch.ones(300, 300) @ torch.ones(300, 300)
    ReferenceStepper.step = step
    return before(*audio)
before, Engine.push = Engine.push, push
sys.exit(main())
"""


async def speak_until_it_ends(server: Served) -> Heard:
    async with websockets.connect(server.stream) as connection:
        await connection.send(START)
        ready = json.loads(await connection.recv())
        await connection.send(pcm(noise(1, 2.0)))
        server.process.send_signal(signal.SIGINT)
        return await listened(connection, ready)


def test_a_certificate_that_cannot_be_used_is_named_before_the_model_loads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pem").write_text("no certificate")
    arguments = ["serve", "--checkpoint", str(tmp_path / "gone"), "--tls-certificate"]
    for certificate, key, said in (
        ("gone", "pem", f"--tls-certificate: expected a file (PEM), got {tmp_path}/gone"),
        ("pem", "gone", f"--tls-key: expected a file (PEM), got {tmp_path}/gone"),
        ("pem", "pem", "--tls-certificate and --tls-key: expected a certificate and its key"),
    ):
        given = [str(tmp_path / certificate), "--tls-key", str(tmp_path / key)]
        assert main([*arguments, *given]) == 2
        error = capsys.readouterr().err
        assert error.startswith(f"cortado: {said}")
        assert error.count("\n") == 1


def test_a_server_that_is_told_to_stop_tells_its_streams_and_exits_with_0(tmp_path: Path) -> None:
    """By SIGINT; a server whose store hangs is told by SIGTERM."""
    with serving(DEFAULT, tmp_path / "log") as server:
        heard = asyncio.run(speak_until_it_ends(server))
        assert (heard.types[0], heard.error) == ("ready", "shutting_down")
        assert server.process.wait(PATIENCE) == 0, (tmp_path / "log").read_text()


def test_a_step_that_does_not_end_ends_with_the_process(tmp_path: Path) -> None:
    log, start = tmp_path / "log", (sys.executable, "-c", STEPS)
    plain = ["--backend", "reference", "--beam", "1"]
    with serving(DEFAULT, log, *plain, start=start) as server, connect(server.stream) as client:
        client.send(START)
        client.send(pcm(noise(1, 2.0)))
        assert wait_for(lambda: "stepping" in log.read_text())
        server.process.terminate()
        assert server.process.wait(PATIENCE) == 0, log.read_text()


def test_a_store_that_hangs_holds_up_no_stop(tmp_path: Path) -> None:
    log, store = tmp_path / "log", str(tmp_path / "streams.sqlite")
    start = (sys.executable, "-c", WAITS)
    with (
        serving(DEFAULT, log, "--store", store, start=start) as server,
        connect(server.stream) as client,
        closing(sqlite3.connect(store, isolation_level=None)) as another,
    ):
        client.send(KEPT)
        assert wait_for(lambda: "acknowledged" in str(client.recv()))
        another.execute("BEGIN EXCLUSIVE")
        server.process.terminate()
        assert server.process.wait(PATIENCE) == 0, log.read_text()
        with pytest.raises(websockets.ConnectionClosedError, match="shutting_down"):
            list(client)
    assert "streams not saved" in log.read_text()


def test_a_reload_holds_up_no_stop(tmp_path: Path) -> None:
    log, start = tmp_path / "log", (sys.executable, "-c", LOADS_AGAIN)
    with serving(DEFAULT, log, start=start) as server:
        server.process.send_signal(signal.SIGHUP)
        assert wait_for(lambda: "loading" in log.read_text())
        server.process.terminate()
        assert server.process.wait(PATIENCE) == 0, log.read_text()


def test_a_second_signal_cuts_the_end_short(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with serving(DEFAULT, log, start=(sys.executable, "-c", STAYS)) as server:
        server.process.terminate()
        assert wait_for(lambda: "leaving" in log.read_text())
        server.process.terminate()
        assert server.process.wait(PATIENCE) == EXIT_CUT_SHORT + signal.SIGTERM
    assert "Traceback" not in log.read_text()


def test_two_signals_in_quick_succession_end_a_server_at_once_and_without_a_traceback(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    with serving(DEFAULT, log, start=(sys.executable, "-c", STAYS)) as server:
        server.process.send_signal(signal.SIGTERM)
        server.process.send_signal(signal.SIGINT)  # another: two of one kind may count as one
        assert server.process.wait(PATIENCE) in CUT_SHORT
    assert "Traceback" not in log.read_text()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/v1/audio/transcriptions", "multipart/form-data; boundary=x"),
        ("/v1/listen", "audio/wav"),
    ],
)
def test_a_file_that_is_still_coming_is_refused_when_the_server_stops(
    path: str, kind: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with (
        serving(DEFAULT, log) as server,
        socket.create_connection(("127.0.0.1", server.port)) as client,
    ):
        form = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {2**23}\r\n"
        head += "Expect: 100-continue\r\n"
        client.sendall(f"{head}Content-Type: {kind}\r\n\r\n".encode() + form)
        assert client.recv(64).startswith(b"HTTP/1.1 100 ")  # it waits for more
        server.process.terminate()
        client.sendall(bytes(2**22))  # more than the system's buffers take: it is not reset
        assert client.recv(64).startswith(b"HTTP/1.1 503 ")
        assert server.process.wait(PATIENCE) == 0
    assert "Traceback" not in log.read_text()
    assert "error" not in log.read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_loads_ends_at_once_when_it_is_told_to_stop(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LOADS],
        cwd=ROOT,
        env=ENVIRONMENT | {"CORTADO_STORE": "memory"},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "loading\n"
        process.send_signal(signal.SIGHUP)  # a reload, of which nothing is left to do
        process.send_signal(number)
        assert process.wait(PATIENCE) == 0
