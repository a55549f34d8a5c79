"""The dashboard's questions, asked of a real Prometheus that scrapes a real server."""

import json
import math
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import websockets

from cortado.model.backends.reference import ReferenceRecognizer
from cortado.server.keys import KeyFile
from cortado.server.protocol.messages import ErrorCode
from cortado.tests import needs
from cortado.tests.model.untrained import noise
from cortado.tests.ports import unused_port
from cortado.tests.server.running import END, PATIENCE, START, Running, pcm, running, say

FOLDER = Path(__file__).parents[2] / "docker" / "monitoring"


@contextmanager
def prometheus(tmp_path: Path, server: Running, key: str) -> Iterator[str]:
    """Run a Prometheus with our configuration, which scrapes `server`; yield its address."""
    program = needs.program("prometheus")
    (tmp_path / "prometheus.key").write_text(key)
    text = (FOLDER / "prometheus.yml").read_text()
    for ours, own in (
        ("cortado:8000", server.page.removeprefix("http://")),
        ("/etc/prometheus/prometheus.key", str(tmp_path / "prometheus.key")),
        ("scrape_interval: 5s", "scrape_interval: 1s"),
    ):
        assert ours in text
        text = text.replace(ours, own)
    config = tmp_path / "prometheus.yml"
    config.write_text(text)
    port = unused_port()
    options = {
        "config.file": config,
        "storage.tsdb.path": tmp_path / "data",
        "web.listen-address": f"127.0.0.1:{port}",
        "log.level": "error",
    }
    with subprocess.Popen([program, *(f"--{k}={v}" for k, v in options.items())]) as process:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def answered(address: str, expression: str) -> list[float]:
    """Return the numbers that Prometheus has for an expression; none until it is up."""
    try:
        response = httpx.get(f"{address}/api/v1/query", params={"query": expression})
    except httpx.TransportError:
        return []
    if response.status_code == httpx.codes.SERVICE_UNAVAILABLE:  # it listens, and still begins
        return []
    answer = response.json()
    assert answer["status"] == "success", answer
    values = [float(one["value"][1]) for one in answer["data"]["result"]]
    return [value for value in values if not math.isnan(value)]


def test_a_real_prometheus_has_an_answer_to_each_panel(
    online: ReferenceRecognizer, tmp_path: Path
) -> None:
    file = KeyFile(tmp_path / "keys.json")
    key = file.add("prometheus")
    mine = {"additional_headers": {"Authorization": f"Bearer {key}"}}
    audio = pcm(noise(1, 0.5))
    dashboard = json.loads((FOLDER / "dashboard.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    left = {expression.replace("$__rate_interval", "1m") for expression in asked}  # as Grafana does
    with running(online, keys=file.path) as server, prometheus(tmp_path, server, key) as address:
        until = time.monotonic() + 2 * PATIENCE  # two scrapes of each, on a busy machine too
        while left and time.monotonic() < until:
            with pytest.raises(websockets.InvalidStatus):
                say(server.url)
            assert say(server.url, "{}", **mine).error == ErrorCode.INVALID_MESSAGE
            say(server.url, START, audio, END, **mine)
            left = {expression for expression in left if not answered(address, expression)}
    assert left == set()
