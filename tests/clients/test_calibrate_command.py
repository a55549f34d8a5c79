"""`cortado calibrate` from the command line: what it changes, and what it refuses."""

import json
from pathlib import Path

import pytest
import soundfile

from cortado.clients import cli
from cortado.model import checkpoint
from cortado.model.checkpoint_reader import read
from cortado.model.config import UNCALIBRATED
from cortado.tests.model.untrained import noise, untrained
from cortado.tests.training.tiny import MODEL

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    checkpoint.save(untrained(MODEL).recognizer, tmp_path / "mine", {"recipe": "kept"})
    return tmp_path / "mine"


def said_in(folder: Path, text: str, name: str) -> Path:
    """A manifest of noise that is said to be some text."""
    soundfile.write(folder / f"{name}.wav", noise(0, 1.5), 16_000)
    row = {"id": name, "audio": f"{name}.wav", "duration": 1.5, "speaker": "a", "text": text}
    (folder / f"{name}.jsonl").write_text(json.dumps(row))
    return folder / f"{name}.jsonl"


def run(folder: Path, *manifests: Path, **options: str) -> int:
    chosen = [part for name, value in options.items() for part in (f"--{name}", value)]
    return cli.main(["calibrate", str(folder), *map(str, manifests), *chosen])


def text_of(folder: Path, tmp_path: Path, capsys: Capture) -> str:
    """What the model hears in the noise."""
    said_in(tmp_path, "", "heard")
    arguments = ["--checkpoint", str(folder), "--json"]
    assert cli.main(["transcribe", str(tmp_path / "heard.wav"), *arguments]) == 0
    text: str = json.loads(capsys.readouterr().out)["text"]
    return text


def test_the_numbers_are_written_and_all_else_stays(
    folder: Path, tmp_path: Path, capsys: Capture
) -> None:
    right = said_in(tmp_path, text_of(folder, tmp_path, capsys), "right")
    wrong = said_in(tmp_path, "nothing of the kind", "wrong")
    before = json.loads((folder / "model.json").read_text())
    assert run(folder, right, wrong) == 0
    out = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in out[:2]] == [
        f"{tmp_path.name}/right",
        f"{tmp_path.name}/wrong",
    ]
    numbers = read(folder).config.decoder.confidence
    assert numbers != UNCALIBRATED
    assert out[-1] == f"{folder}: confidence {list(numbers)}"
    after = json.loads((folder / "model.json").read_text())
    assert after["config"]["decoder"].pop("confidence") == list(numbers)
    before["config"]["decoder"].pop("confidence")
    assert after == before


def test_nothing_is_written_where_nothing_can_be_fitted(
    folder: Path, tmp_path: Path, capsys: Capture
) -> None:
    wrong = said_in(tmp_path, "nothing of the kind", "wrong")
    before = (folder / "model.json").read_bytes()
    for options in ({}, {"beam": "1"}):
        assert run(folder, wrong, **options) == 2
        assert capsys.readouterr().err.startswith("cortado: expected ")
    wrong.with_suffix(".wav").unlink()
    assert run(folder, wrong) == 2
    assert "wrong.wav: expected" in capsys.readouterr().err
    assert (folder / "model.json").read_bytes() == before
