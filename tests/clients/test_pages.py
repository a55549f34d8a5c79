"""The commands of the pages, run as they stand there, in the folder of somebody who tries them."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import pytest

from cortado.model import checkpoint_reader
from cortado.tests import needs
from cortado.tests.clients import sounddevice
from cortado.tests.clients.serving import ENVIRONMENT, ROOT, Served
from cortado.tests.https import self_signed
from cortado.tests.test_commands_of_pages import commands_of

PAGES = ("README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
NOT_RUN = {  # what a command looks like, and why it is not run here
    r"cortado (train|study) ": "takes hours: test_examples.py fine-tunes for one step",
    r"cortado text ": "needs a clone, and minutes to hours: test_text_command.py has miniatures",
    r"cortado export runs/": "needs a run that took hours: test_export_command.py has its own",
    r"cortado calibrate ": "needs a model of one's own: test_calibrate_command.py has one",
    r"/timit": "the corpus is licensed",
    r"cortado deploy ray": "needs a cluster: test_ray.py deploys on one",
    r" streams\.json": "needs a quiet machine: test_plan.py has measurements",
    r" --ray ": "needs a cluster: test_ray_processes.py transcribes in one",
    r"cortado replay ": "a recording has another name each time: test_recording.py replays",
}
SERVER = "ws://127.0.0.1:8000/v1/stream"

pytestmark = [pytest.mark.slow, needs.openssl]


@pytest.fixture(scope="module")
def home(recording: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the pages speak of: recordings, texts, manifests, a certificate."""
    base = tmp_path_factory.mktemp("pages")
    home = base / "clone"
    for name in ("archive/monday", "recordings", "models"):
        (home / name).mkdir(parents=True)
    for name in ("talk.wav", "archive/monday/talk.wav", "recordings/one.wav"):
        shutil.copy(recording, home / name)
    shutil.copy(ROOT / "clients/web/sample.webm", home / "talk.mp3")  # its kind is heard, not read
    (home / "recordings/one.txt").write_text("the old man walked")
    for name in ("sentences.txt", "commands.txt"):
        (home / name).write_text("turn the light on\nturn the light off\n" * 20)
    (home / "models/mine").symlink_to(checkpoint_reader.DEFAULT)
    row = {"id": "one", "audio": str(recording), "speaker": "a", "duration": 5.0}
    manifest = json.dumps(row | {"text": "the old man walked"}) + "\n"
    shared = base / "shared" / "data"
    for place in (
        home / "dev.jsonl",
        home / "recordings.jsonl",
        shared / "librispeech-mini/dev.jsonl",
        shared / "mine/train.jsonl",
        shared / "mine/dev.jsonl",
    ):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(manifest)
    self_signed(home / "chain.pem", home / "key.pem", "speech.example.org")
    (base / "fake").mkdir()
    shutil.copy(sounddevice.__file__, base / "fake/sounddevice.py")
    return home


def needs_a_shell(line: str) -> bool:
    """Return whether a command has a pipe or variables, or is ended or answered from outside."""
    return not line.startswith("cortado ") or line.split()[1] in ("serve", "mic")


# Most of what a command takes is its start, so those of a page that need no shell share one.
TOGETHER = """
import shlex, sys
from cortado.clients.cli import main
for line in sys.argv[1:]:
    print("$", line, flush=True)
    if code := main(shlex.split(line, comments=True)[1:]):
        sys.exit(code)
"""


def run(command: Sequence[str], home: Path) -> None:
    """Run a program to its end, a server until it listens; it has to succeed."""
    environment = {
        **ENVIRONMENT,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(home.parent / "fake"),
        "WAV": str(home / "talk.wav"),
        "CORTADO_PORT": "0",
        "CORTADO_STORE": "memory",
    }
    log = home.parent / "log"
    with log.open("w") as out:
        process = subprocess.Popen(
            command,
            cwd=home,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
        assert process.stdin is not None
        process.stdin.write(b"0\n")  # the number of the microphone
        process.stdin.close()
        while process.poll() is None:
            if "cortado serve" in command[-1] and re.search(r"https?://\S+:\d+", log.read_text()):
                os.killpg(process.pid, signal.SIGINT)
                process.wait(60)
                return
            time.sleep(0.1)
    assert process.returncode == 0, f"{command[-1]}\n{log.read_text()}"


@pytest.mark.parametrize("page", [page for page in PAGES if commands_of(ROOT / page)])
def test_the_commands_of_a_page_run_one_after_another(
    page: str, home: Path, server: Served
) -> None:
    lines = [
        line
        for line in commands_of(ROOT / page)
        if not any(re.search(kind, line) for kind in NOT_RUN)
    ]
    # What the page leaves to the reader: the server that runs, and what the microphone hears.
    lines = [line.replace(SERVER, server.stream) for line in lines]
    lines = [line + f" --url {server.stream}" * ("cortado mic" in line) for line in lines]
    for in_shell, group in groupby(lines, needs_a_shell):
        if in_shell:
            for line in group:
                run(["bash", "-ec", line], home)
        else:
            run([sys.executable, "-c", TOGETHER, *group], home)


def test_what_is_not_run_is_on_a_page() -> None:
    lines = [line for page in PAGES for line in commands_of(ROOT / page)]
    assert [kind for kind in NOT_RUN if not any(re.search(kind, line) for line in lines)] == []
    assert len(lines) > 30
