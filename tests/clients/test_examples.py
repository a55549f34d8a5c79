"""Every script of examples/ runs: beside a real server, on real speech."""

import json
import os
import subprocess
import sys
from pathlib import Path

from cortado.tests.clients import sounddevice
from cortado.tests.clients.serving import ENVIRONMENT, ROOT, Served

EXAMPLES = ROOT / "examples"


def run(name: str, *arguments: str | Path, **environment: str) -> str:
    command = [sys.executable, os.fspath(EXAMPLES / f"{name}.py"), *map(str, arguments)]
    own = {**ENVIRONMENT, **environment}
    done = subprocess.run(command, env=own, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_transcribe_file(recording: Path, text: str) -> None:
    first, *words = run("transcribe_file", recording).splitlines()
    assert first == f"{recording}: {text.strip()}"
    assert [line.split()[2] for line in words] == text.split()


def test_stream_file(recording: Path, text: str, server: Served) -> None:
    assert run("stream_file", recording, server.stream).split() == text.split()


def test_live_captions(recording: Path, text: str, tmp_path: Path) -> None:
    (tmp_path / "sounddevice.py").write_text(Path(sounddevice.__file__).read_text())
    said = run("live_captions", PYTHONPATH=os.fspath(tmp_path), WAV=os.fspath(recording))
    assert said.split() == ["Speak;", "Ctrl-C", "ends.", *text.split()]


def test_evaluate(recording: Path, text: str, tmp_path: Path) -> None:
    row = {"id": "one", "audio": os.fspath(recording), "speaker": "a", "duration": 3.0}
    manifest = tmp_path / "dev.jsonl"
    manifest.write_text(json.dumps(row | {"text": f"{text} again"}))
    words = len(text.split()) + 1
    assert run("evaluate", manifest).startswith(f"1 of {words} words are wrong: {1 / words:.1%}\n")


def test_fine_tune(recording: Path, text: str, tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    (folder / "one.wav").write_bytes(recording.read_bytes())
    (folder / "one.txt").write_text(text)
    lines = run("fine_tune", folder, tmp_path / "run", "1").splitlines()
    assert lines[-2] == f"{tmp_path / 'run' / 'checkpoint'} has the new model"
    assert lines[-1]


def test_each_script_is_listed_and_run_here() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert {name for name in names if f"test_{name}" not in globals()} == set()
    page = (EXAMPLES / "README.md").read_text()
    assert {name for name in names if f"({name}.py)" not in page} == set()
