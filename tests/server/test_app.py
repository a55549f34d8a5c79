"""The page, the operators' addresses, and the end of a server."""

import asyncio
import json
import logging
from pathlib import Path

import httpx
import pytest
import websockets

from cortado.clients.cli import main
from cortado.model import checkpoint, checkpoint_reader
from cortado.model.backends.reference import ReferenceRecognizer
from cortado.server import logs
from cortado.server.protocol.messages import ErrorCode
from cortado.server.run import address, listen
from cortado.server.settings import read_settings
from cortado.tests.model.untrained import noise
from cortado.tests.server.running import END, START, Heard, Running, listened, pcm, running, say


def test_the_process_is_alive_and_the_model_ready(server: Running) -> None:
    assert httpx.get(f"{server.page}/health").json() == {"status": "alive"}
    ready = httpx.get(f"{server.page}/ready")
    assert (ready.status_code, ready.json()) == (200, {"status": "ready"})


def test_a_server_that_drains_is_alive_but_not_ready(online: ReferenceRecognizer) -> None:
    with running(online) as server:
        server.service.streams.draining = True
        assert httpx.get(f"{server.page}/health").status_code == 200
        ready = httpx.get(f"{server.page}/ready")
        assert (ready.status_code, ready.json()) == (503, {"status": "draining"})
        heard = say(server.url, START)
        assert (heard.error, heard.close_code) == (ErrorCode.SHUTTING_DOWN, 1012)


def test_a_server_whose_model_stopped_is_not_ready(online: ReferenceRecognizer) -> None:
    with running(online) as server:
        server.service.engine.stop()
        assert httpx.get(f"{server.page}/ready").status_code == 503
        assert say(server.url, START).error == ErrorCode.INTERNAL_ERROR


def test_info_tells_the_models_facts_and_the_limits(server: Running) -> None:
    info = httpx.get(f"{server.page}/v1/info").json()
    assert info["model"] == "untrained"
    assert info["lookahead_ms"] == server.service.lookahead_ms
    assert info["accepts"]["encodings"] == ["pcm_s16le", "pcm_f32le"]
    assert info["limits"]["max_streams"] == 2048


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
    "path", ["/nothing.js", "/../stream.py", "/%2e%2e/stream.py", "/..%2f..%2fpyproject.toml"]
)
def test_nothing_but_the_page_is_served(path: str, server: Running) -> None:
    answer = httpx.get(server.page + path)
    assert answer.status_code == 404
    assert "content-security-policy" in answer.headers


def test_streams_are_told_of_a_shutdown_and_keep_what_was_decided(
    online: ReferenceRecognizer,
) -> None:
    async def speak(server: Running) -> Heard:
        async with websockets.connect(server.url) as connection:
            await connection.send(START)
            await connection.send(pcm(noise(1, 2.0)))
            first = [json.loads(await connection.recv()) for _ in range(3)]
            server.server.should_exit = True
            rest = await listened(connection)
            return Heard(first + rest.messages, rest.close_code)

    with running(online) as server:
        heard = asyncio.run(speak(server))
        assert heard.types[:3] == ["ready", "chars", "chars"]
        assert (heard.error, heard.close_code) == (ErrorCode.SHUTTING_DOWN, 1012)
    assert server.service.engine.active == 0
    assert not server.service.engine.alive


def test_a_taken_port_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    with listen(read_settings(port=0)) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["serve", "--port", str(port)]) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"cortado: 127.0.0.1 port {port} is taken")
    assert message.count("\n") == 1


def test_a_missing_checkpoint_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--port", "0", "--checkpoint", str(tmp_path)]) == 2
    message = capsys.readouterr().err
    assert str(tmp_path) in message
    assert message.count("\n") == 1


def test_a_broken_checkpoint_is_one_clear_line(
    tmp_path: Path, online: ReferenceRecognizer, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint.save(online.recognizer, tmp_path)
    (tmp_path / checkpoint_reader.WEIGHTS).write_bytes(b"not weights")
    assert main(["serve", "--port", "0", "--checkpoint", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_an_address_that_is_not_this_machines_is_one_clear_line() -> None:
    # 192.0.2.0/24 is kept for documentation (RFC 5737).
    with pytest.raises(ValueError, match=r"^expected to listen on 192\.0\.2\.1 port 0, got: "):
        listen(read_settings(host="192.0.2.1", port=0))


def test_the_address_to_open_is_one_that_a_browser_can() -> None:
    with listen(read_settings(host="0.0.0.0", port=0)) as listener:
        port = listener.getsockname()[1]
        assert address(listener) == f"http://127.0.0.1:{port}"


def test_a_log_line_for_machines_is_one_json_object() -> None:
    record = logging.makeLogRecord(
        {
            "name": "cortado.server.session",
            "levelname": "INFO",
            "msg": "stream ended",
            "session": "1f",
        }
    )
    line = json.loads(logs.JsonFormatter().format(record))
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "info",
        "logger": "cortado.server.session",
        "event": "stream ended",
        "session": "1f",
    }
    assert logs.TextFormatter().format(record).endswith("INFO    stream ended session=1f")
