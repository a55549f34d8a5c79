"""`cortado prepare` as typed in a terminal."""

from pathlib import Path

import pytest

from cortado.clients.cli import main
from cortado.tests.training.data.discs import write_timit

SPEAKERS = [("train", "dr1", "fcjf0"), ("test", "dr1", "mdab0")]


def test_it_says_what_differs_from_the_published_sets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, out = write_timit(tmp_path / "disc", SPEAKERS), tmp_path / "out"
    assert main(["prepare", "timit", str(root), str(out), "--workers", "1"]) == 1
    told = capsys.readouterr()
    assert "test: 190 of 192 utterances missing" in told.out
    assert "test: 1 speakers, published are 24" in told.out
    assert f"73 missing: see {out / 'problems.txt'}" in told.err
    assert (out / "train.jsonl").exists()


def test_a_whole_corpus_is_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    audio = write_timit(tmp_path / "disc", SPEAKERS[:1]) / "TIMIT/TRAIN/DR1/FCJF0"
    assert (
        main(["prepare", "folder", str(audio), str(tmp_path / "out"), "-w", "1", "--text", "raw"])
        == 0
    )
    assert " 3 " in capsys.readouterr().out


def test_mistakes_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (
        (["timit", str(tmp_path)], "expected the corpus and a folder to write to, got one of them"),
        (["timit", str(tmp_path), "x"], "expected TIMIT's train/dr1/fcjf0/si1027.wav"),
        (["brown", str(tmp_path), "x"], "expected a corpus of timit, wsj"),
    ):
        assert main(["prepare", *arguments]) == 2
        told = capsys.readouterr().err
        assert told.startswith("cortado: ")
        assert message in told
