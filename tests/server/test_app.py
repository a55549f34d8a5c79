"""The page, the operators' addresses, and the end of a server."""

import asyncio
import gc
import json
import logging
import resource
import socket
import sys
import threading
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import websockets
from structlog.contextvars import bound_contextvars
from websockets.sync.client import connect

from cortado.clients.cli import main
from cortado.model import checkpoint, checkpoint_reader
from cortado.model.backends.reference import ReferenceRecognizer
from cortado.model.streaming.recordings import transcribe
from cortado.server import engine, logs, run
from cortado.server import service as service_module
from cortado.server.access import Refused
from cortado.server.engine import Engine
from cortado.server.keys import KeyFile
from cortado.server.memory import freeze
from cortado.server.protocol.messages import ErrorCode, Start
from cortado.server.run import EXIT_ENGINE_FAILED, address, listen
from cortado.server.service import Service
from cortado.server.settings import Settings, read_settings
from cortado.tests.model.untrained import TINY, TINY_SEED, noise, untrained
from cortado.tests.server.running import (
    END,
    FLUSH,
    KEPT,
    PATIENCE,
    START,
    Heard,
    Running,
    Stuck,
    listened,
    pcm,
    rounded,
    running,
    say,
    spelt,
    wait_for,
)


def test_the_process_is_alive_and_the_model_ready(server: Running) -> None:
    assert httpx.get(f"{server.page}/health").json() == {"status": "alive"}
    ready = httpx.get(f"{server.page}/ready")
    assert (ready.status_code, ready.json()) == (200, {"status": "ready"})


def test_a_server_that_drains_is_alive_but_not_ready(online: ReferenceRecognizer) -> None:
    with running(online) as server:
        server.service.streams.draining.set()
        assert httpx.get(f"{server.page}/health").status_code == 200
        ready = httpx.get(f"{server.page}/ready")
        assert (ready.status_code, ready.json()) == (503, {"status": "draining"})
        heard = say(server.url, START)
        assert (heard.error, heard.close_code) == (ErrorCode.SHUTTING_DOWN, 1012)


def test_a_server_whose_engine_fails_says_so_and_ends_with_a_code(
    online: ReferenceRecognizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise RuntimeError("not in a step")

    seen, failure = threading.Event(), vars(Engine)["failure"].__get__
    watched = property(lambda engine: failure(engine) if seen.is_set() else None)
    monkeypatch.setattr(Engine, "failure", watched)
    with running(online) as server:
        monkeypatch.setattr(server.service.engine, "_gather", broken)
        heard = say(server.url, START, pcm(noise(1, 1.0)))  # wakes it: it takes its last step
        assert heard.error == ErrorCode.INTERNAL_ERROR
        assert httpx.get(f"{server.page}/health").status_code == 503
        assert httpx.get(f"{server.page}/ready").status_code == 503
        seen.set()  # only now may the server end
        assert wait_for(lambda: server.server.should_exit)
        assert server.server.exit_code == EXIT_ENGINE_FAILED


def test_a_step_that_does_not_end_is_said_at_once_and_given_up_in_the_end(
    online: ReferenceRecognizer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    Stuck.go.clear()
    monkeypatch.setattr(run, "LOOK_SECONDS", 1e9)  # nobody ends the server
    with (
        running(Stuck(online.recognizer), idle_timeout_seconds=600.0) as server,
        connect(server.url) as lost,
    ):
        lost.send(KEPT)
        assert "token" in lost.recv(PATIENCE)
        assert say(server.url, START, pcm(noise(1, 1.0)), END).close_code == 1000
        stream = server.service.engine.open(Start(), print)
        server.service.engine.push(stream, np.ones(2000, np.float32))
        monkeypatch.setattr(engine, "STALLED_SECONDS", 0.3)
        assert wait_for(lambda: httpx.get(f"{server.page}/health").status_code == 503)
        refused = say(server.url, START)
        assert (refused.error, refused.close_code) == (ErrorCode.TOO_MANY_STREAMS, 1013)
        assert "retry_after" in refused.messages[-1], "it may yet go on"
        [line] = [one for one in caplog.records if one.message == "stream refused"]
        assert vars(line)["address"] == "127.0.0.1"
        assert server.service.engine.failure is None
        lost.socket.shutdown(socket.SHUT_RDWR)
        assert wait_for(lambda: bool(server.service.engine._leaving)), "it waits for the step, too"
        monkeypatch.setattr(engine, "HANGING_SECONDS", 0.3)
        assert "has not ended" in str(server.service.engine.failure)
        assert say(server.url, START).error == ErrorCode.INTERNAL_ERROR
        assert "stream failed" in caplog.messages, "no internal error goes without a line"
        monkeypatch.undo()
        Stuck.go.set()
        server.service.engine.close(stream)
        assert server.is_at_rest()
        assert len(server.service.streams.resumable) == 1
        assert httpx.get(f"{server.page}/health").status_code == 200


def test_info_tells_the_models_facts_and_the_limits(server: Running) -> None:
    info = httpx.get(f"{server.page}/v1/info").json()
    assert info["model"] == "untrained"
    assert info["lookahead_ms"] == server.service.engine.recognizer.lookahead_ms
    assert info["accepts"]["encodings"][:2] == ["pcm_s16le", "pcm_f32le"]
    assert "webm" in info["accepts"]["encodings"]
    assert info["limits"]["max_streams"] == 2048


def test_the_shipped_model_is_served_by_default() -> None:
    online, facts, name = service_module.read_model(read_settings())
    assert name == checkpoint_reader.DEFAULT.name
    assert facts["sample_rate"] == 16_000
    assert facts["lookahead_ms"] == online.lookahead_ms <= 110


def test_metrics_count_what_was_heard(online: ReferenceRecognizer) -> None:
    with running(online) as server:
        heard = say(server.url, START, pcm(noise(1, 1.0)), END)
        assert server.is_at_rest()
        text = httpx.get(f"{server.page}/metrics").text
    assert "cortado_streams_active 0.0\n" in text
    assert 'cortado_streams_total{ending="final"} 1.0\n' in text
    assert "cortado_audio_seconds_total 1.0\n" in text
    assert f"cortado_characters_total {float(len(heard.text))}\n" in text
    assert "cortado_processing_delay_seconds_count 25.0\n" in text


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/app.js", "text/javascript; charset=utf-8"),
        ("/style.css", "text/css; charset=utf-8"),
    ],
)
def test_the_page_is_served_with_its_type_and_kept_to_itself(
    path: str, kind: str, server: Running
) -> None:
    answer = httpx.get(server.page + path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == kind
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"].startswith("default-src 'self';")
    again = httpx.get(server.page + path, headers={"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304


@pytest.mark.parametrize(
    "path",
    [
        "/nothing.js",
        f"/{'a' * 300}",
        "/%00",
        "/../stream.py",
        "/%2e%2e/stream.py",
        "/..%2f..%2fpyproject.toml",
    ],
)
def test_nothing_but_the_page_is_served(path: str, server: Running) -> None:
    answer = httpx.get(server.page + path)
    assert answer.status_code == 404
    assert "content-security-policy" in answer.headers


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_what_is_not_there_is_not_found(method: str, server: Running) -> None:
    answer = httpx.request(method, f"{server.page}/v1/nothing")
    message = "expected an address that /docs lists, got '/v1/nothing'"
    assert (answer.status_code, answer.json()) == (404, {"error": "not_found", "message": message})


def test_another_method_than_an_address_has_is_told_with_those_that_it_has(server: Running) -> None:
    for method, path, allowed in (
        ("PUT", "/v1/listen", "POST"),
        ("GET", "/v1/listen", "POST"),
        ("DELETE", "/health", "GET"),
        ("POST", "/app.js", "GET, HEAD"),
    ):
        answer = httpx.request(method, server.page + path)
        assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
        assert answer.json()["message"] == f"expected {allowed}, got {method}"


@pytest.mark.parametrize("path", ["/", "/app.js", "/health", "/ready", "/metrics", "/v1/info"])
def test_a_probe_may_ask_for_the_head_alone(path: str, server: Running) -> None:
    answer = httpx.head(server.page + path)
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"] == httpx.get(server.page + path).headers["content-type"]


def test_a_request_with_two_lengths_is_refused_and_ends_its_connection(server: Running) -> None:
    host, port = server.page.removeprefix("http://").split(":")
    with closing(HTTPConnection(host, int(port))) as connection:
        lengths = {"Content-Length": "5", "Transfer-Encoding": "chunked"}
        connection.request("POST", "/v1/secrets", b"0\r\n\r\n", lengths)
        answer = connection.getresponse()
        assert answer.status == 400
        assert json.load(answer)["message"].endswith("got both")
        assert connection.sock is None, "it stays open"


@pytest.mark.parametrize(
    ("path", "status"), [("/health", 200), ("", 200), ("/", 200), ("//health", 404), ("/no", 404)]
)
def test_a_whole_address_means_its_path(path: str, status: int, server: Running) -> None:
    host, port = server.page.removeprefix("http://").split(":")
    for page in (server.page, server.page.upper()):  # a scheme has no case
        with closing(HTTPConnection(host, int(port))) as connection:
            connection.request("GET", page + path)
            assert connection.getresponse().status == status


def test_a_whole_address_that_a_proxy_has_passed_on_means_nothing(server: Running) -> None:
    """The proxy may have rules for the path, and has not seen it."""
    host, port = server.page.removeprefix("http://").split(":")
    with closing(HTTPConnection(host, int(port))) as connection:
        connection.request(
            "GET", server.page + "/metrics", headers={"X-Forwarded-For": "192.0.2.1"}
        )
        assert connection.getresponse().status == 404


def test_a_websocket_that_is_not_there_is_not_found(server: Running) -> None:
    with pytest.raises(websockets.InvalidStatus) as caught:
        say(server.url + "/nothing")
    assert caught.value.response.status_code == 404


def test_streams_are_told_of_a_shutdown_and_keep_what_was_decided(
    online: ReferenceRecognizer,
) -> None:
    async def speak(server: Running) -> Heard:
        async with websockets.connect(server.url) as connection:
            await connection.send(START)
            await connection.send(pcm(noise(1, 2.0)))
            first = [json.loads(await connection.recv()) for _ in range(3)]
            server.server.should_exit = True
            return await listened(connection, *first)

    with running(online) as server:
        heard = asyncio.run(speak(server))
        assert heard.types[:3] == ["ready", "chars", "chars"]
        assert (heard.error, heard.close_code) == (ErrorCode.SHUTTING_DOWN, 1012)
    assert server.service.engine.active == 0
    assert not server.service.engine.alive


def test_sockets_for_all_connections_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    said: list[str] = []
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1024, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: asked.append(limits))
    run.allow_descriptors(1000, said.append)
    run.allow_descriptors(2176, said.append)
    assert (asked, said) == ([(2176, 4096)], [])
    run.allow_descriptors(9000, said.append)
    assert asked[-1] == (4096, 4096)
    assert "lower max_connections" in said[0]
    plain = run.descriptors(Settings(max_connections=1000))
    assert plain > 2 * 1000, "an upload is a connection and a file"
    recording = Settings(max_connections=1000, record=Path("folder"), record_streams=10**6)
    assert run.descriptors(recording) == plain + recording.max_streams


def test_a_taken_port_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    with listen(read_settings(port=0)) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["serve", "--port", str(port)]) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"cortado: 127.0.0.1 port {port} is taken")
    assert message.count("\n") == 1


@pytest.mark.usefixtures("logging_as_it_was")
def test_a_port_that_is_taken_while_the_model_loads_is_one_clear_line(
    online: ReferenceRecognizer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def load(settings: Settings) -> service_module.Service:
        other.listen()
        return service_module.Service(online, {}, "untrained", settings)

    monkeypatch.setattr(run, "load", load)
    with listen(read_settings(port=0)) as other:
        port = str(other.getsockname()[1])
        assert main(["serve", "--port", port, "--store", "memory", "--headroom", "1"]) == 2
    assert capsys.readouterr().err.startswith(f"cortado: 127.0.0.1 port {port} is taken")


@pytest.mark.usefixtures("logging_as_it_was")
def test_a_missing_or_broken_checkpoint_is_one_clear_line(
    tmp_path: Path, online: ReferenceRecognizer, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint.save(online.recognizer, tmp_path)
    (tmp_path / checkpoint_reader.WEIGHTS).write_bytes(b"not weights")
    for folder in (tmp_path, tmp_path / "none"):
        assert main(["serve", "--port", "0", "--checkpoint", str(folder)]) == 2
        message = capsys.readouterr().err
        assert str(tmp_path) in message
        assert message.count("\n") == 1


def test_an_address_that_is_not_this_machines_is_one_clear_line() -> None:
    # 192.0.2.0/24 is kept for documentation (RFC 5737).
    with pytest.raises(ValueError, match=r"^expected to listen on 192\.0\.2\.1 port 0, got: "):
        listen(read_settings(host="192.0.2.1", port=0))


def test_the_address_to_open_is_one_that_a_browser_can() -> None:
    with listen(read_settings(host="0.0.0.0", port=0)) as listener:
        port = listener.getsockname()[1]
        assert address(listener) == f"http://127.0.0.1:{port}"


def test_a_reload_is_for_new_streams_and_live_ones_stay_with_their_model(
    online: ReferenceRecognizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = untrained(TINY, TINY_SEED + 1)
    monkeypatch.setattr(service_module, "RETIRE_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(service_module, "read_model", lambda settings: (other, {}, "other"))
    monkeypatch.setattr(service_module, "freeze", freeze)
    samples = pcm(noise(1, 2.0))

    async def speak(server: Running) -> Heard:
        async with websockets.connect(server.url) as connection:
            await connection.send(START)
            await connection.send(samples[: len(samples) // 2])
            first = [json.loads(await connection.recv()) for _ in range(2)]
            answer = await asyncio.to_thread(httpx.post, f"{server.page}/reload", timeout=PATIENCE)
            assert answer.json() == {"model": "other"}
            for frame in (FLUSH, samples[len(samples) // 2 :], END):
                await connection.send(frame)
            return await listened(connection, *first)

    patient = running(online, start_timeout_seconds=PATIENCE)
    with patient as server, connect(server.url) as early:
        half = len(samples) // 2
        before = say(server.url, START, samples[:half], FLUSH, samples[half:], END)
        assert asyncio.run(speak(server)).text == before.text
        after = say(server.url, START, samples, END)
        assert after.messages[0]["model"] == "other"
        early.send(START)  # over a connection from before
        assert json.loads(early.recv(PATIENCE))["model"] == "other"
        early.close()
        assert after.text == spelt(transcribe(other, rounded(noise(1, 2.0))))[0]
        assert server.is_at_rest()
        assert wait_for(lambda: not server.service._retired and gc.get_freeze_count() > 0)
        monkeypatch.setattr(service_module, "read_model", broken_model)
        failed = httpx.post(f"{server.page}/reload")
        told = {"error": "checkpoint", "message": "expected a checkpoint, got none"}
        assert (failed.status_code, failed.json()) == (409, told)
        through_a_proxy = {"X-Forwarded-For": "192.0.2.1"}
        assert httpx.post(f"{server.page}/reload", headers=through_a_proxy).status_code == 403
        assert say(server.url, START, samples, END).text == after.text


@pytest.mark.parametrize("settings", [{}, {"max_message_bytes": 262_144}])
def test_a_reload_takes_no_model_whose_suspended_streams_no_message_could_carry(
    settings: dict[str, int], online: ReferenceRecognizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "read_model", lambda settings: (online, {}, "other"))
    with running(online, **settings) as server:
        monkeypatch.setattr(service_module, "BESIDE_STATE_BYTES", 300_000)
        answer = httpx.post(f"{server.page}/reload", timeout=PATIENCE)
        if settings:  # as whoever set it wants it
            assert answer.status_code == 200
        else:
            assert answer.status_code == 409
            assert "whose suspended streams fit into 262144 bytes, got" in answer.json()["message"]
            assert httpx.get(f"{server.page}/v1/info").json()["model"] == "untrained"


def test_a_reload_that_ends_when_the_server_has_stopped_starts_no_engine(
    online: ReferenceRecognizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = threading.Event()
    service = Service(online, {}, "before", Settings(store="memory", headroom=1))

    def read_model(settings: Settings) -> tuple[ReferenceRecognizer, dict[str, Any], str]:
        go.wait(PATIENCE)
        return online, {}, "after"

    async def stop_within_a_reload() -> None:
        service.engine.start()
        reloading = asyncio.create_task(service.reload())
        await asyncio.sleep(0)
        await service.drain()
        await service.stop()
        go.set()
        with pytest.raises(Refused, match="expected a running server"):
            await reloading

    monkeypatch.setattr(service_module, "read_model", read_model)
    asyncio.run(stop_within_a_reload())
    assert service.model_name == "before"
    assert not service.computes


def test_a_reload_that_hangs_is_given_up_and_the_next_may_succeed(
    online: ReferenceRecognizer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    go = threading.Event()

    def read_model(settings: Settings) -> tuple[ReferenceRecognizer, dict[str, Any], str]:
        go.wait(PATIENCE)
        raise ValueError("expected a checkpoint, got none")

    monkeypatch.setattr(service_module, "RELOAD_SECONDS", 0.1)
    monkeypatch.setattr(service_module, "read_model", read_model)
    with running(online) as server:
        hung = httpx.post(f"{server.page}/reload", timeout=PATIENCE)
        assert (hung.status_code, hung.json()["error"]) == (409, "checkpoint")
        assert "expected a checkpoint that loads within 0.1 s" in hung.json()["message"]
        monkeypatch.setattr(service_module, "RELOAD_SECONDS", PATIENCE)
        monkeypatch.setattr(service_module, "read_model", lambda settings: (online, {}, "after"))
        again = httpx.post(f"{server.page}/reload", timeout=PATIENCE)
        assert again.json() == {"model": "after"}
        assert len(server.service._loads) == 1, "the first load runs still"
        go.set()
        assert wait_for(lambda: not server.service._loads)
    gc.collect()
    assert not [one for one in caplog.records if one.name == "asyncio"]


def test_a_failed_reload_says_why_whatever_the_reason(
    online: ReferenceRecognizer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def without_torch(settings: Settings) -> None:
        raise ModuleNotFoundError("No module named 'torch'")

    monkeypatch.setattr(service_module, "read_model", without_torch)
    with running(online) as server:
        asyncio.run(server.server._try_to_reload())
    [record] = [one for one in caplog.records if one.message == "model not reloaded"]
    assert record.exc_info
    assert "torch" in str(record.exc_info[1])


def test_pages_of_allowed_origins_may_read_what_is_answered(
    online: ReferenceRecognizer, tmp_path: Path
) -> None:
    KeyFile(tmp_path / "keys.json").add("app")
    friend, info = "https://friend.example", "/v1/info"
    asked = {"Access-Control-Request-Method": "GET"}
    asked |= {"Access-Control-Request-Headers": "authorization"}
    with running(online, keys=tmp_path / "keys.json", allowed_origins=friend) as server:
        refused = httpx.get(server.page + info, headers={"Origin": friend})
        assert (refused.status_code, refused.headers["Access-Control-Allow-Origin"]) == (
            401,
            friend,
        )
        before = httpx.options(server.page + info, headers={"Origin": friend} | asked)
        assert before.status_code == 200
        assert "authorization" in before.headers["Access-Control-Allow-Headers"].lower()
        for stranger in ("https://evil.example", "null"):
            answer = httpx.get(server.page + info, headers={"Origin": stranger})
            assert answer.status_code == 403
            assert "Access-Control-Allow-Origin" not in answer.headers
    with running(online) as server:
        answer = httpx.get(server.page + info, headers={"Origin": server.page})
        assert answer.status_code == 200
        assert "Access-Control-Allow-Origin" not in answer.headers


def test_a_retired_model_whose_step_does_not_end_ends_the_server_as_well(
    online: ReferenceRecognizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    Stuck.go.clear()
    monkeypatch.setattr(service_module, "read_model", lambda settings: (online, {}, "other"))

    async def speak(server: Running) -> Heard:
        async with websockets.connect(server.url) as connection:
            await connection.send(START)
            await asyncio.to_thread(httpx.post, f"{server.page}/reload", timeout=PATIENCE)
            monkeypatch.setattr(engine, "HANGING_SECONDS", 0.3)
            await connection.send(pcm(np.ones(2000, np.float32)))
            return await listened(connection)

    with running(Stuck(online.recognizer)) as server:
        assert asyncio.run(speak(server)).error == ErrorCode.SHUTTING_DOWN
        assert server.server.exit_code == EXIT_ENGINE_FAILED
        Stuck.go.set()


def test_a_server_that_was_paused_in_the_midst_of_a_step_goes_on(
    online: ReferenceRecognizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first look after a pause comes before the step has ended."""
    looks: list[str | None] = []

    def failure(service: Service) -> str | None:
        looks.append("a step has not ended for 20 s" if len(looks) == 1 else None)
        return looks[-1]

    monkeypatch.setattr(Service, "failure", property(failure))
    monkeypatch.setattr(run, "LOOK_SECONDS", 0.01)
    with running(online) as server:
        assert wait_for(lambda: len(looks) > 3 or server.server.should_exit)
        assert say(server.url, START, pcm(noise(1, 1.0)), END).close_code == 1000
        assert server.server.exit_code == 0


def test_streams_of_the_old_model_count_until_they_end(
    online: ReferenceRecognizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "read_model", lambda settings: (online, {}, "other"))
    with running(online, max_streams=1) as server:
        with connect(server.url) as live:
            live.send(START)
            assert json.loads(live.recv(PATIENCE))["type"] == "ready"
            assert httpx.post(f"{server.page}/reload", timeout=PATIENCE).status_code == 200
            assert say(server.url, START).error == ErrorCode.TOO_MANY_STREAMS
            live.send(END)
            assert json.loads(live.recv(PATIENCE))["type"] == "final"
        assert wait_for(lambda: not sum(one.active for one in server.service.engines))
        assert say(server.url, START, END).close_code == 1000


def broken_model(settings: Settings) -> None:
    """Find no checkpoint."""
    raise ValueError("expected a checkpoint, got none")


def record(**facts: Any) -> logging.LogRecord:
    """Return a log record of a session that has ended."""
    return logging.makeLogRecord(
        {"name": "cortado.server.session", "levelname": "INFO", "msg": "stream ended"} | facts
    )


def test_a_log_line_names_its_session_and_is_json_for_machines() -> None:
    with bound_contextvars(session="1f"):
        line = json.loads(logs.formatter("json").format(record(ending="final")))
        text = logs.formatter("text").format(record(ending="final"))
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "logger": "cortado.server.session",
        "event": "stream ended",
        "ending": "final",
        "session": "1f",
    }
    assert "stream ended" in text
    assert "session=1f" in text


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_fault_is_logged_without_what_was_in_hand(form: str) -> None:
    said = "a word that nobody else may read"
    try:
        raise RuntimeError(len(said))
    except RuntimeError:
        fault = record(exc_info=sys.exc_info())
    text = logs.formatter(form).format(fault)
    assert f"RuntimeError: {len(said)}" in text
    assert said not in text


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_terminal_obeys_nothing_that_a_log_line_says(form: str) -> None:
    text = logs.formatter(form).format(record(address="\x1b]0;é\x07\n"))
    assert text.isprintable()
    if form == "text":
        assert r"address=\x1b]0;é\x07\n" in text


def test_a_flood_of_log_lines_is_counted_and_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(logs, "monotonic", lambda: now)
    flood = logs.FloodFilter()
    written = sum(flood.filter(record(msg="connection refused")) for _ in range(1000))
    assert written == logs.FLOOD_LINES
    assert flood.filter(record())  # another event is not hidden by it
    now += 2 * logs.FLOOD_SECONDS
    assert flood.filter(record())  # another event comes first
    last = record(msg="connection refused")
    assert flood.filter(last)
    assert vars(last)["omitted"] == 1000 - logs.FLOOD_LINES
