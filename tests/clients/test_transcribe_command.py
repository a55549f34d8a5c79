"""`cortado transcribe`: formats, folders, standard input, and going on after a stop."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cortado.clients import cli
from cortado.clients.results import Input, places
from cortado.tests.clients.serving import CORTADO, ENVIRONMENT, ROOT
from cortado.tests.clients.speech import write
from cortado.tests.clients.terminal import in_terminal
from cortado.tests.model.untrained import noise

Capture = pytest.CaptureFixture[str]


def run(saved: str, *arguments: object) -> int:
    return cli.main(["transcribe", "--checkpoint", saved, *map(str, arguments)])


def test_a_folder_gives_a_result_for_each_file_below_it(
    archive: Path, saved: str, tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "out"
    assert run(saved, archive, "--output", out) == 0
    found = {path.relative_to(out).as_posix(): path.read_text() for path in out.rglob("*.*")}
    assert sorted(found) == ["a.txt", "deep/b.txt"]
    assert capsys.readouterr().out == ""
    assert run(saved, archive / "a.wav") == 0
    assert capsys.readouterr() == (found["a.txt"], "")
    assert found["a.txt"].count("\n") == 1


def test_what_is_done_is_passed_over_and_what_is_new_or_broken_is_not(
    archive: Path, saved: str, tmp_path: Path, capsys: Capture
) -> None:
    out, bad = tmp_path / "out", archive / "c.wav"
    bad.write_bytes((archive / "a.wav").read_bytes()[:9000])
    assert run(saved, archive, "-o", out, "--format", "json") == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"cortado: {bad}: expected a whole file, got one cut ")
    assert sorted(path.name for path in out.rglob("*.*")) == ["a.json", "b.json"]
    for path in out.rglob("*.json"):
        path.write_text("kept")
    os.utime(archive / "deep" / "b.wav", (4e9, 4e9))  # changed since
    write(bad, noise(3, 0.5))
    assert run(saved, archive, "-o", out, "--format", "json") == 0
    assert (out / "a.json").read_text() == "kept"
    assert json.loads((out / "c.json").read_text())["duration"] == 0.5
    assert json.loads((out / "deep" / "b.json").read_text())["duration"] == 0.7


def test_a_transcript_beside_its_recording_is_kept_however_old(archive: Path, saved: str) -> None:
    own = archive / "a.txt"
    own.write_text("what was said")
    os.utime(own, (1, 1))
    assert run(saved, archive, "-o", archive) == 0
    assert own.read_text() == "what was said"
    assert (archive / "deep" / "b.txt").exists()


def test_a_result_is_whole_or_not_there(
    archive: Path, saved: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert run(saved, archive, "-o", tmp_path / "out") == 2
    assert [*(tmp_path / "out").rglob("*.*")] == []


def test_processes_share_an_archive_and_go_on_with_what_is_left(
    archive: Path, saved: str, tmp_path: Path, capsys: Capture
) -> None:
    alone, out = tmp_path / "alone", tmp_path / "out"
    assert run(saved, archive, "-o", alone, "--format", "json") == 0
    (archive / "c.wav").write_bytes((archive / "a.wav").read_bytes()[:9000])
    assert run(saved, archive, "-o", out, "--format", "json", "--workers", 2) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"cortado: {archive / 'c.wav'}: expected a whole file, got one cut ")
    names = ["a.json", "deep/b.json"]
    assert [(out / name).read_text() for name in names] == [
        (alone / name).read_text() for name in names
    ]
    (out / "a.json").write_text("kept")
    (archive / "c.wav").unlink()
    assert run(saved, archive, "-o", out, "--format", "json", "--workers", 2) == 0
    assert (out / "a.json").read_text() == "kept"


@pytest.mark.parametrize("ending", ["jsonl", "txt"])
def test_a_manifest_or_a_list_stands_for_its_files_each_once(
    archive: Path, saved: str, tmp_path: Path, ending: str
) -> None:
    names = ["a.wav", "deep/b.wav", "a.wav"]
    lines = names if ending == "txt" else [json.dumps({"id": "x", "audio": one}) for one in names]
    listing = archive / f"all.{ending}"
    listing.write_text("\n".join(lines) + "\n\n")
    assert run(saved, listing, "-o", tmp_path / "out", "--format", "json") == 0
    found = {path.name: json.loads(path.read_text()) for path in (tmp_path / "out").rglob("*.json")}
    assert {name: one["file"] for name, one in found.items()} == {
        "a.json": f"{archive}/a.wav",
        "b.json": f"{archive}/deep/b.wav",
    }


@pytest.mark.parametrize("ending", ["txt", "srt", "vtt", "json", "ctm"])
def test_the_output_s_ending_says_the_format(
    archive: Path, saved: str, tmp_path: Path, ending: str, capsys: Capture
) -> None:
    output, audio = tmp_path / f"talk.{ending}", archive / "a.wav"
    assert run(saved, audio, "-o", output) == 0
    assert capsys.readouterr().out == ""
    assert run(saved, audio, "--format", ending) == 0
    assert capsys.readouterr().out == output.read_text() != ""


def test_several_files_can_share_one_output(archive: Path, saved: str, tmp_path: Path) -> None:
    assert run(saved, archive, "-o", tmp_path / "all.json") == 0
    rows = [json.loads(line) for line in (tmp_path / "all.json").read_text().splitlines()]
    assert [row["file"] for row in rows] == [f"{archive}/a.wav", f"{archive}/deep/b.wav"]
    assert all(row["words"] for row in rows)


def test_mistakes_are_one_line(archive: Path, saved: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "empty").mkdir()
    wrong, nothing = tmp_path / "wrong.jsonl", tmp_path / "nothing.txt"
    wrong.write_text('{"audio": "a.wav"}\n{"text": "a"}\n')
    nothing.write_text("\n")
    (listed := tmp_path / "listed.txt").write_text(f"{archive}/a.wav\n")
    names = "expected recordings of different names in one ctm, or --output FOLDER"
    for arguments, message in (
        ([archive, "--format", "srt"], "expected --output FOLDER for srt of 2 files, got none"),
        (
            [archive / "a.wav", "--format", "json", "--output", archive / "x.srt"],
            f"expected an --output that ends in .json, got {archive / 'x.srt'}",
        ),
        (
            [archive, "-o", tmp_path / "all.vtt"],
            f"expected --output FOLDER for vtt of 2 files, got {tmp_path / 'all.vtt'}",
        ),
        ([tmp_path / "empty"], f"expected audio files below {tmp_path / 'empty'}, got none"),
        ([archive, "--json", "--format", "txt"], "expected --json or --format, got both"),
        (
            [archive, "--json", "-o", "a.srt"],
            "expected --json into a file that ends in .jsonl",
        ),
        (
            [archive, "--json", "-o", "a.json", "--alternatives", "2"],
            "expected --alternatives with --format json, got it with --json",
        ),
        ([archive, "-o", tmp_path / "no" / "a.txt"], "expected a file in a folder that exists"),
        (
            [archive / "a.wav", "-o", tmp_path / "a.docx"],
            "expected a file that ends in txt, srt, vtt, json, ctm, or a folder, which has to",
        ),
        (
            [archive / "a.wav", "-o", archive / "deep" / "b.wav"],
            "expected a file that ends in txt, srt, vtt, json, ctm, or a folder, which has to",
        ),
        (
            [archive, "-o", archive / "a.wav"],
            f"expected a folder that files can be written to, got {archive / 'a.wav'}",
        ),
        (
            [listed, "-o", listed],
            f"expected another file than one that is read, got {listed}",
        ),
        ([archive, archive, "-o", tmp_path / "out"], "expected one file for "),
        (["-", archive, "--workers", 2], "expected files for --workers 2, got standard input"),
        (["-", "--ray"], "expected files for --ray, got standard input"),
        ([archive, "--address", "a:1"], "expected --address with --ray, got --address a:1 alone"),
        ([wrong], f'{wrong}, line 2: expected {{"audio": "FILE"}}, got {{"text": "a"}}'),
        ([nothing], f"expected files in {nothing}, got none"),
        (
            ["x/a.wav", "b.wav", "y/a.mp3", "--format", "ctm"],
            f"{names}, got x/a.wav and y/a.mp3",
        ),
        (
            ["my talk.wav", "my_talk.mp3", "--format", "ctm"],
            f"{names}, got my talk.wav and my_talk.mp3",
        ),
        (["a.wav", "a.wav", "--format", "ctm"], f"{names}, got a.wav and a.wav"),
    ):
        assert run(saved, *arguments) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert line.startswith(f"cortado: {message}")


def test_files_of_one_name_keep_their_endings() -> None:
    found = [Input(Path(name), Path(name)) for name in ("d/a.wav", "d/a.mp3", "b.c.wav", "-")]
    wanted = ["o/d/a.wav.txt", "o/d/a.mp3.txt", "o/b.c.txt", "o/-.txt"]
    assert [path.as_posix() for path in places(found, Path("o"), "txt")] == wanted


@pytest.mark.skipif(sys.platform != "linux", reason="names are text elsewhere")
def test_names_that_cannot_be_written_are_no_failure(
    archive: Path, saved: str, tmp_path: Path
) -> None:
    strange = archive / os.fsdecode(b"b\xe9\xc3\xa9.wav")  # Latin 1, then UTF-8
    (archive / "a.wav").rename(strange)
    command = [*CORTADO, "transcribe", "--checkpoint", saved, "--json", os.fspath(strange)]
    for encoding, name in (("utf-8", r"b\udce9é.wav"), ("ascii", r"b\udce9\xe9.wav")):
        environment = ENVIRONMENT | {"PYTHONIOENCODING": f"{encoding}:strict"}
        done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, check=True)
        assert f'{name}"' in done.stdout.decode()
    assert run(saved, strange, "-o", tmp_path / "out.json") == 0
    assert json.loads((tmp_path / "out.json").read_text())["file"] == os.fspath(strange)


@contextmanager
def piped(path: Path) -> Iterator[None]:
    """Let standard input be a pipe that gives a file."""
    before = os.dup(0)
    with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as cat:
        assert cat.stdout is not None
        os.dup2(cat.stdout.fileno(), 0)
        try:
            yield
        finally:
            os.dup2(before, 0)
            os.close(before)


@pytest.mark.parametrize("suffix", ["wav", "flac"])
def test_standard_input_gives_what_the_file_gives(
    archive: Path, saved: str, suffix: str, capsys: Capture
) -> None:
    audio = write(archive / f"piped.{suffix}", noise(4, 1.0))
    assert run(saved, audio) == 0
    written = capsys.readouterr().out
    with piped(audio):
        assert run(saved, "-") == 0
    assert capsys.readouterr().out == written


def test_a_bar_is_shown_in_a_terminal_beside_results_that_go_elsewhere(
    archive: Path, saved: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    command = [*CORTADO, "transcribe", "--checkpoint", saved, "--json", str(archive)]
    in_shell = ("sh", "-c", f"{shlex.join(command)} > {out}")
    with in_terminal(in_shell, ENVIRONMENT | {"COLUMNS": "100"}, str(ROOT)) as terminal:
        assert terminal.process.wait() == 0
        terminal.wait_for("2 of 2 files")
        assert "100%" in terminal.text
    assert len([json.loads(line) for line in out.read_text().splitlines()]) == 2


def test_phrases_that_cannot_be_had_give_no_line_but_their_error(
    archive: Path, saved: str, capsys: Capture
) -> None:
    for phrases, message in (
        (["42"], "expected a phrase with letters of the vocabulary, got '42'"),
        (["a"] * 101, "expected at most 100 phrases, got 101"),
    ):
        given = [word for phrase in phrases for word in ("--phrase", phrase)]
        assert run(saved, archive / "a.wav", *given) == 2
        out, error = capsys.readouterr()
        assert out == ""
        assert message in error


def test_alternatives_are_part_of_json(archive: Path, saved: str, capsys: Capture) -> None:
    assert run(saved, archive / "a.wav", "--alternatives", "2") == 2
    assert "expected --alternatives with --format json, got it with txt" in capsys.readouterr().err
