"""The benchmark of live streams, in miniature: that it measures, not what this machine is worth."""

import json
from pathlib import Path

import pytest

from cortado.clients.bench.streams import report
from cortado.clients.bench.streams.delays import Point
from cortado.clients.bench.streams.live import measure
from cortado.clients.bench.streams.memory import memory, work
from cortado.model.backends.reference import ReferenceRecognizer
from cortado.server.sample import speech


def point(streams: int, p99: float, part: str = "engine") -> Point:
    return Point(part, "reference", 100, streams, 1.0, p99 / 2, p99, p99, p99, 10, 0.5)


def test_every_step_of_every_stream_is_measured(online: ReferenceRecognizer) -> None:
    found = measure(online, [speech()[:32_000]], streams=3, chunk_ms=80, seconds=0.8)
    assert found.streams == 3
    assert 0 < found.p50 <= found.p95 <= found.p99 <= found.worst
    assert found.steps > 0  # as many as the machine had time for


def test_memory_and_work_are_measured(
    online: ReferenceRecognizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A few steps are enough where nobody reads the figures.
    monkeypatch.setattr("cortado.clients.bench.streams.memory.MAX_STEPS", 10)
    found = memory(online, 50)
    assert found.state == online.stepper(1).bytes_per_stream > 0
    steps = work(online, [speech()[:32_000]], (1, 64))
    assert len(steps.seconds) == 2
    assert min(steps.seconds) > 0


def test_the_memory_of_streams_is_counted_where_the_process_had_freed_some(
    online: ReferenceRecognizer,
) -> None:
    big = bytearray(b"1") * 30_000_000  # mapped by itself; once it is free, such sizes are not
    del big
    pairs = [(bytearray(b"1") * 10_000_000, bytearray(200)) for _ in range(10)]
    kept = [small for _, small in pairs]  # between the holes, so that those stay
    del pairs
    found = memory(online, 400)
    assert found.resident > 0.9 * found.state
    assert len(kept) == 10


def test_the_most_streams_that_were_carried_are_reported() -> None:
    points = [point(64, 0.02), point(1000, 0.09), point(2000, 0.4), point(50, 0.05, "websockets")]
    assert report.largest(points) == {("engine", 100): 1000, ("websockets", 100): 50}
    assert "engine, 100 ms: 1,000 streams with a p99 of at most 100 ms" in report.lines(points, {})
    assert report.table(points).row_count == 4


def test_a_report_can_be_written(tmp_path: Path) -> None:
    points = [point(64, 0.02), point(1000, 0.09)]
    report.write_json(tmp_path / "out.json", points, {"backend": "reference"})
    content = json.loads((tmp_path / "out.json").read_text())
    assert content["points"][1]["streams"] == 1000
    assert content["backend"] == "reference"
