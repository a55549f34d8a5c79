"""`cortado align`: pictures of the kinds that it promises, and one line for a mistake."""

from pathlib import Path

import pytest
import soundfile

from cortado.clients import cli
from cortado.tests.model.untrained import noise

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    soundfile.write(tmp_path / "a.wav", noise(3, 1.5), 16_000)
    return tmp_path / "a.wav"


def test_a_picture_has_the_text_as_letters_and_is_the_same_file_again(
    saved: str, recording: Path, tmp_path: Path, capsys: Capture
) -> None:
    picture = tmp_path / "a.svg"
    arguments = ["align", str(recording), "--text", "Q x", "--expected", "--checkpoint", saved]
    assert cli.main([*arguments, "--out", str(picture)]) == 0
    assert capsys.readouterr().out == f"{picture}\n"
    first = picture.read_text()
    assert ">seconds<" in first
    assert ">expected to stop<" in first
    assert ">q<" in first
    assert len(first) < 400_000
    assert cli.main([*arguments, "--out", str(picture)]) == 0
    assert picture.read_text() == first


def test_without_a_name_the_picture_is_named_by_its_recording(
    saved: str, recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["align", str(recording), "--checkpoint", saved]) == 0
    assert capsys.readouterr().out == "a.svg\n"
    assert (tmp_path / "a.svg").read_text().startswith("<?xml")
    assert cli.main(["align", str(recording), "-o", "a.png", "--checkpoint", saved]) == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_mistakes_are_one_line(
    saved: str, recording: Path, tmp_path: Path, capsys: Capture
) -> None:
    for arguments, expected in (
        ([str(recording), "--out", str(tmp_path / "a.gif")], "ends in .svg, .png, .pdf"),
        ([str(recording), "--text", "ß", "--out", str(tmp_path / "a.svg")], "got 'ß'"),
        ([str(tmp_path / "none.wav"), "--out", str(tmp_path / "a.svg")], "it does not exist"),
    ):
        assert cli.main(["align", *arguments, "--checkpoint", saved]) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert expected in line
