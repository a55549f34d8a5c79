"""How fast an archive is transcribed: in one process, in two, and in a Ray cluster of this machine.

It takes minutes, in which the machine should have nothing else to do, so it runs on request:

    LONG_TAKE=1 make pytest ARGS="tests/clients/test_archive_speed.py -s"
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cortado.tests import needs
from cortado.tests.clients.serving import CORTADO, ENVIRONMENT

LIST = needs.RECORDINGS / "train.jsonl"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.shared,
    pytest.mark.timeout(3600),
    needs.quiet_machine,
    needs.recordings,
    pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="two processes need two cores"),
]

WAYS = {"one process": [], "--workers 2": ["--workers", "2"], "--ray": ["--ray", "--workers", "2"]}
LEAST_GAIN = 1.1  # of two processes over one: each loads a model first, for half a minute of work


def seconds(out: Path, flags: list[str]) -> float:
    """Transcribe all recordings, in a process of its own; return how long it took."""
    began = time.monotonic()
    command = [*CORTADO, "transcribe", str(LIST), "--format", "json", "--output", str(out), *flags]
    subprocess.run(command, env=ENVIRONMENT, check=True)
    return time.monotonic() - began


def test_two_processes_transcribe_an_archive_faster_than_one_and_the_same(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in LIST.read_text().splitlines()]
    hours = sum(row["duration"] for row in rows) / 3600
    seconds(tmp_path / "first", [])  # compiles, and reads the disk
    took, texts = {}, {}
    for way, flags in WAYS.items():
        took[way] = seconds(tmp_path / way, flags)
        texts[way] = {path.name: path.read_text() for path in (tmp_path / way).rglob("*.json")}
        sys.stdout.write(
            f"\n{way}: {len(rows)} files, {hours:.2f} h of speech in {took[way]:.1f} s, start and"
            f" loading included: {3600 * hours / took[way]:.0f} times real time\n"
        )
    assert texts["one process"] == texts["--workers 2"] == texts["--ray"] != {}
    assert took["--workers 2"] < took["one process"] / LEAST_GAIN
