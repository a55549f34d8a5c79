"""`cortado evaluate` and `cortado transcribe` from the command line: files, words, exit codes."""

import json
from pathlib import Path

import pytest
import soundfile

from cortado.clients import cli
from cortado.tests.model.untrained import noise

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tiny").mkdir()
    return tmp_path / "tiny"


@pytest.fixture
def manifest(folder: Path) -> Path:
    rows: list[str] = []
    for name in ("a", "b"):
        soundfile.write(folder / f"{name}.wav", noise(len(rows), 0.8), 16_000)
        row = {"id": name, "audio": f"{name}.wav", "duration": 0.8, "speaker": name}
        rows.append(json.dumps({**row, "text": "some words"}))
    (folder / "dev.jsonl").write_text("\n".join(rows))
    return folder / "dev.jsonl"


def test_evaluate_writes_a_table_and_a_file(
    saved: str, manifest: Path, folder: Path, capsys: Capture
) -> None:
    scores = folder / "scores.json"
    arguments = ["evaluate", str(manifest), "--json", str(scores)]
    assert cli.main([*arguments, "--checkpoint", saved]) == 0
    streams = capsys.readouterr()
    assert "tiny/dev  " in streams.out
    assert "(RTF) counts features, encoder and decoder" in " ".join(streams.out.split())
    assert streams.err == ""
    assert [one["utterances"] for one in json.loads(scores.read_text())["sets"]] == [2]


def test_evaluate_lists_bad_audio_and_ends_with_exit_code_1(
    saved: str, manifest: Path, folder: Path, capsys: Capture
) -> None:
    (folder / "a.wav").unlink()
    scores = folder / "scores.json"
    arguments = ["evaluate", str(manifest), "--json", str(scores), "--checkpoint", saved]
    assert cli.main(arguments) == 1
    assert f"cortado: {folder / 'a.wav'}: expected" in capsys.readouterr().err
    assert [one["utterances"] for one in json.loads(scores.read_text())["sets"]] == [1]


def test_evaluate_refuses_what_it_cannot_use_with_exit_code_2(
    saved: str, manifest: Path, folder: Path, capsys: Capture
) -> None:
    missing = str(folder / "none.jsonl")
    for arguments in (
        [missing, "--checkpoint", saved],
        [str(manifest), "--checkpoint", str(folder)],
        [str(manifest), "--checkpoint", saved, "--json", str(folder)],
        [str(manifest), "--checkpoint", saved, "--trn", str(manifest)],
        [str(manifest), "--checkpoint", saved, "--trn", str(manifest / "below")],
        [str(manifest), "--checkpoint", saved, "--by", "speaker"],
    ):
        assert cli.main(["evaluate", *arguments]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
    assert cli.main(["evaluate"]) == 2


@pytest.mark.parametrize(
    ("phrases", "options", "message"),
    [
        (b"\n \n", [], "expected a phrase on each line of {}, got none"),
        (b"\xff\xfe", [], "{}: expected text in UTF-8, got"),
        (b"Ada", ["--mode", "beam"], "expected --phrases with --mode online and words, got"),
        (b"Ada\n42\n", [], "expected a phrase with letters of the vocabulary, got '42'"),
        (b"Ada\n" * 101, [], "expected at most 100 phrases, got 101"),
        (b"Ada", ["--beam", "1"], "expected a search for phrases, got the greedy scan (--beam 1)"),
    ],
)
def test_evaluate_refuses_phrases_that_its_streams_cannot_expect(
    phrases: bytes, options: list[str], message: str, manifest: Path, capsys: Capture
) -> None:
    file = manifest.parent / "names.txt"
    file.write_bytes(phrases)
    assert cli.main(["evaluate", str(manifest), "--phrases", str(file), *options]) == 2
    assert capsys.readouterr().err.startswith(f"cortado: {message.format(file)}")


def test_evaluate_takes_recordings_of_next_to_nothing(
    saved: str, folder: Path, capsys: Capture
) -> None:
    for samples in (1, 150, 0):
        soundfile.write(folder / f"{samples}.wav", noise(1, samples / 16_000), 16_000)
        (folder / f"{samples}.txt").write_text("some words")
    scores, page = folder / "scores.json", folder / "page.html"
    places = ["--json", str(scores), "--html", str(page)]
    assert cli.main(["evaluate", str(folder), *places, "--checkpoint", saved]) == 1
    wanted = f"cortado: {folder / '0.wav'}: expected at least one sample, got none\n"
    assert capsys.readouterr().err == wanted
    [found] = json.loads(scores.read_text())["sets"]
    assert sorted(row["id"] for row in found["results"]) == ["1.wav", "150.wav"]
    assert page.read_text().count("data:image/png") == 2  # the frames of both


def test_evaluate_writes_whatever_is_asked_for(
    saved: str, manifest: Path, folder: Path, capsys: Capture
) -> None:
    before, page = folder / "before.json", folder / "report.html"
    quick = ["--checkpoint", saved, "--worst", "1"]
    assert cli.main(["evaluate", str(folder), "--json", str(before), *quick]) == 0
    arguments = ["--compare", str(before), "--html", str(page), "--trn", str(folder / "sclite")]
    assert cli.main(["evaluate", str(manifest), *arguments, *quick]) == 0
    assert "+0.00 points [+0.00, +0.00]: not significant" in " ".join(
        capsys.readouterr().out.split()
    )
    assert page.read_text().startswith("<!doctype html>")
    assert len(list((folder / "sclite").iterdir())) == 4


@pytest.mark.parametrize("mode", ["uncapped", "hard-beam", "expected", "beam"])
def test_evaluate_searches_offline_too(
    mode: str, saved: str, manifest: Path, folder: Path, capsys: Capture
) -> None:
    scores = folder / "scores.json"
    options = ["--mode", mode, "--unit", "char", "--normalise", "corpus", "--checkpoint", saved]
    assert cli.main(["evaluate", str(manifest), "--json", str(scores), *options]) == 0
    [found] = json.loads(scores.read_text())["sets"]
    assert (found["mode"], found["unit"], found["delay"]) == (mode, "char", None)
    assert found["normalisation"].startswith("corpus: ")


def test_evaluate_says_what_does_not_go_together(
    saved: str, manifest: Path, capsys: Capture
) -> None:
    for options, expected in (
        (["--server", "ws://127.0.0.1:9/v1/stream", "--mode", "beam"], "--mode online"),
        (["--server", "ws://127.0.0.1:9/v1/stream", "--backend", "fast"], "got --backend fast"),
        (["--server", "ws://127.0.0.1:9/v1/stream"], "no server at"),
        (["--unit", "phone", "--checkpoint", saved], "expected phones in the manifest"),
        (["--compare", str(manifest), "--checkpoint", saved], "--json"),
        (["--mode", "beam", "--lm", "none"], "expected --lm with --mode online and a checkpoint"),
        (["--mode", "beam", "--aligner", "a"], "expected --aligner with --mode online and a"),
        (
            ["--server", "ws://h/", "--aligner", "a"],
            "--aligner with --mode online and a checkpoint",
        ),
        (["--server", "ws://h/", "--beam", "4", "--hold", "9"], "--beam and --hold with --mode"),
        (["--checkpoint", saved, "--beam", "1", "--hold", "9"], "2 or more hypotheses with --hold"),
    ):
        assert cli.main(["evaluate", str(manifest), *options]) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert expected in line
