"""The programs of docs/doors.md, run as they stand there, but for the address."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cortado.model.audio.decode import decode
from cortado.model.audio.resampler import Resampler
from cortado.tests.clients.serving import ENVIRONMENT, ROOT, Served
from cortado.tests.clients.speech import write

PROGRAMS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "doors.md").read_text(), re.DOTALL)
SHIPPED = "http://127.0.0.1:8000", "ws://127.0.0.1:8000"  # the address on the page


@pytest.fixture(scope="module")
def recordings(recording: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the recordings that the programs open."""
    found = tmp_path_factory.mktemp("doors")
    samples = decode(recording)
    resampler = Resampler(16_000, 24_000)
    for name, rate, given in (
        ("talk.wav", 16_000, samples),
        ("talk24k.wav", 24_000, np.concatenate([resampler.push(samples), resampler.finish()])),
    ):
        write(found / name, given, rate)
    return found


def words(text: str) -> list[str]:
    return re.findall(r"[a-z']+", text)


@pytest.mark.parametrize("number", range(4), ids=["deepgram", "openai", "realtime", "vosk"])
def test_a_program_of_the_page_runs(
    number: int, recordings: Path, server: Served, text: str
) -> None:
    pytest.importorskip("deepgram" if number == 0 else "openai", reason="needs the extra dev")
    assert len(PROGRAMS) == 4
    program = PROGRAMS[number]
    assert any(address in program for address in SHIPPED)
    live = server.stream.removesuffix("/v1/stream")
    for old, new in zip(SHIPPED, (live.replace("ws", "http", 1), live), strict=True):
        program = program.replace(old, new)
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=recordings,
        env=dict(ENVIRONMENT, PYTHONDONTWRITEBYTECODE="1"),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    said, wanted = words(done.stdout), text.split()
    if number == 2:  # another rate: the same but for a letter or two
        assert abs(len(said) - len(wanted)) <= 2
    else:
        assert all(word in said for word in wanted)
