"""`cortado plan`: the simulation against what is known of such systems."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortado.clients.bench.plan import Fleet, Load, place, simulate
from cortado.clients.bench.streams.delays import Point, percentiles
from cortado.clients.bench.streams.report import COMMAND, Server, capacity_and_cores, write_json
from cortado.clients.cli import main

NEVER = 1e9  # hours


def erlang_b(offered: float, places: int) -> float:
    """Return the share that a system without a queue refuses (Erlang 1917)."""
    blocked = 1.0
    for place_number in range(1, places + 1):
        blocked = offered * blocked / (place_number + offered * blocked)
    return blocked


@pytest.mark.parametrize(("streams", "servers", "capacity"), [(9.0, 2, 4), (95.0, 2, 50)])
def test_servers_that_never_fail_refuse_what_erlang_says(
    streams: float, servers: int, capacity: int
) -> None:
    fleet = Fleet(capacity, servers, servers, failure_hours=NEVER)
    load = Load(streams, seconds=60.0)
    found = simulate(load, fleet, hours=6.0)
    expected = erlang_b(streams, servers * capacity)
    assert found.refused_share == pytest.approx(expected, rel=0.1)
    carried = found.stream_hours / found.hours
    assert carried == pytest.approx(streams * (1 - expected), rel=0.03)


def test_a_place_is_taken_while_streams_open_and_end() -> None:
    fleet = Fleet(4, 2, 2, failure_hours=NEVER)
    found = simulate(Load(8.0, seconds=8.0, turnover=2.0), fleet, hours=6.0)
    assert found.refused_share == pytest.approx(erlang_b(10.0, 8), rel=0.05)


@given(
    st.lists(st.integers(0, 7), min_size=1, max_size=6),
    st.integers(0, 50),
)
def test_the_emptiest_server_gets_the_next_stream(live: list[int], count: int) -> None:
    slowly, placed = list(live), 0
    for _ in range(count):
        emptiest = min(range(len(live)), key=lambda one: slowly[one])
        if slowly[emptiest] < 7:
            slowly[emptiest] += 1
            placed += 1
    filled, found = place(np.array(live), 7, count)
    assert (sorted(filled.tolist()), found) == (sorted(slowly), placed)
    assert all(after >= before for after, before in zip(filled, live, strict=True))


def test_a_load_that_rises_faster_than_servers_start_is_refused_until_they_have() -> None:
    load = Load(2000.0, seconds=300.0, peak=2.0)  # from nothing to 4,000 in twelve hours
    slow = Fleet(100, target=1.0, start_seconds=1800.0, failure_hours=NEVER)
    fast = Fleet(100, target=0.7, start_seconds=10.0, failure_hours=NEVER)
    lagging, following = simulate(load, slow), simulate(load, fast)
    assert lagging.refused_share > 0.03
    assert following.refused_share < 1e-4
    assert following.most_servers == pytest.approx(4000 / 70, rel=0.1)
    assert following.server_hours < 1.15 * following.stream_hours / 70 + 24


def test_streams_of_a_server_that_fails_move_or_are_cut() -> None:
    load = Load(100.0, seconds=600.0)
    roomy, full = Fleet(100, 2, 2, failure_hours=1.0), Fleet(55, 2, 2, failure_hours=1.0)
    long_gone = Fleet(55, 2, 2, failure_hours=1.0, restart_seconds=300.0)
    moved, waited, cut = (simulate(load, one, 8.0) for one in (roomy, full, long_gone))
    failures = 8 / 1 * 2
    assert moved.moved == pytest.approx(50 * failures, rel=0.4)
    assert moved.cut == 0 < moved.moved
    assert waited.cut < cut.cut
    assert cut.cut > 0.3 * cut.moved


def test_the_same_chance_gives_the_same_day() -> None:
    load, fleet = Load(50.0), Fleet(10, failure_hours=5.0)
    assert simulate(load, fleet, 3.0, seed=4) == simulate(load, fleet, 3.0, seed=4)
    assert simulate(load, fleet, 3.0, seed=4) != simulate(load, fleet, 3.0, seed=5)


def test_a_plan_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--streams", "700", "--servers", "2", "--hours", "1", "--peak", "1"]
    assert main(["plan", *arguments]) == 0
    rows = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    assert rows["servers"].split() == ["2.0", "on", "average,", "2", "at", "most"]
    assert rows["price"].split()[0] == f"{2 * 2 * 0.04 * 730:.0f}"


def measurements(*points: tuple[int, float, float]) -> str:
    """Return what a bench writes: streams, p99 and processor seconds a second of each load."""
    found = [
        Point("websockets", "fast", 100, streams, 8.0, 0.01, 0.02, p99, p99, 999, busy)
        for streams, p99, busy in points
    ]
    return json.dumps({"points": [asdict(one) for one in found], "cores": 4})


def test_a_server_carries_what_was_measured_on_one_like_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "streams.json"
    file.write_text(measurements((1, 0.01, 0.02), (300, 0.05, 1.0), (450, 0.3, 1.9)))
    # Two thirds of four cores, for 1/300 of a core each.
    assert capacity_and_cores(file) == Server(capacity=800, cores=4, measured=300)
    assert main(["plan", "--streams", "700", "--hours", "1", "--measured", str(file)]) == 0
    rows = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    assert rows["a server"].split() == ["800", "streams", "on", "4", "cores"]
    assert rows["cores"].split()[-3:] == ["4", "at", "most"]  # of one server


def test_a_load_without_a_single_result_is_written_as_json_and_read(tmp_path: Path) -> None:
    file = tmp_path / "streams.json"
    carried = Point("websockets", "fast", 100, 300, 8.0, 0.01, 0.02, 0.05, 0.05, 999, 1.0)
    silent = Point("websockets", "fast", 100, 900, 8.0, *percentiles(np.zeros(0)), 0, 1.9)
    write_json(file, [carried, silent], {"cores": 4})
    rows = json.loads(file.read_text(), parse_constant=pytest.fail)["points"]
    assert rows[1]["p99"] is None
    assert capacity_and_cores(file) == Server(capacity=800, cores=4, measured=300)


@pytest.mark.parametrize(("streams", "warned"), [(30, True), (800, False)])
def test_a_plan_says_where_a_server_gets_more_streams_than_were_measured(
    streams: int, warned: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "streams.json"
    file.write_text(measurements((streams, 0.05, streams / 300)))
    assert main(["plan", "--streams", "700", "--hours", "1", "--measured", str(file)]) == 0
    said = f"{file} has loads of up to 30 streams, and the plan puts 800 on a server: {COMMAND}"
    expected = f"cortado: {said} --count 800 measures so many\n" if warned else ""
    assert capsys.readouterr().err == expected


def test_measurements_of_which_nothing_follows_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "streams.json"
    given = ["plan", "--streams", "7", "--measured", str(file)]
    for content, more, message in (
        ("{}", [], f"expected the JSON of {COMMAND}, got {file}: KeyError('points')"),
        ("text", [], f"expected the JSON of {COMMAND}, got {file}: JSONDecodeError("),
        (measurements((300, 0.3, 1.9)), [], f"expected {file} to hold a load that a server carr"),
        (measurements(), ["--cores", "2"], f"expected --measured or --cores, got both: {file} and"),
    ):
        file.write_text(content)
        assert main([*given, *more]) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert line.startswith(f"cortado: {message}")


def test_figures_out_of_reason_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--streams", "10", "--peak", "3"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    mistake = "invalid value for '--peak': expected less than or equal to 2, got 3"
    assert line == f"cortado: {mistake}; cortado plan --help explains"
    with pytest.raises(ValueError, match="expected a peak of 1 to 2 means, got 3"):
        simulate(Load(1.0, peak=3.0), Fleet())
    with pytest.raises(ValueError, match="expected at least 3 servers to be had, got 2"):
        simulate(Load(1.0), Fleet(least=3, most=2))
