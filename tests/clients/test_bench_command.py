"""The benchmarks as a user calls them."""

import json
from pathlib import Path

import pytest

from cortado.clients.cli import main


def test_decoding_speed_is_printed_written_and_plotted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = ["--json", f"{tmp_path / 'a.json'}", "--svg", f"{tmp_path / 'a.svg'}"]
    assert main(["bench", "attention", "--part", "decoding", "--trials", "1", *places]) == 0
    shown = capsys.readouterr().out
    assert "MoChA w = 8" in shown
    assert "growth" in shown
    lengths = json.loads((tmp_path / "a.json").read_text())["decoding"][0]["lengths"]
    assert lengths == [*range(10, 101, 10), 200, 400, 800]
    assert "</svg>" in (tmp_path / "a.svg").read_text()


def test_a_plot_of_what_is_not_measured_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "attention", "--part", "step", "--svg", "plot.svg"]) == 2
    assert "--part decoding" in capsys.readouterr().err


def test_where_processor_time_cannot_be_told_it_is_said_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    assert main(["bench", "streams"]) == 2
    assert "expected Linux, whose /proc tells" in capsys.readouterr().err
