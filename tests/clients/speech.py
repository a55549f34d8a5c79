"""Real speech for the clients' tests: a recording where there is one, else a synthetic voice."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from cortado.model.audio.decode import decode
from cortado.tests import needs

RATE = 16_000  # Hz
STEADY, SECONDS = "39-121914-0000", 7.5
SENTENCE = "the old man walked slowly down to the river and sat there in the morning sun"


def speech(folder: Path) -> tuple[str, NDArray[np.float32]]:
    """Return the name and the samples (N,) at 16 kHz of 5 to 8 seconds of speech."""
    manifest = needs.RECORDINGS / "dev.jsonl"
    if manifest.exists():
        rows = [json.loads(line) for line in manifest.read_text().splitlines()]
        row = min((row for row in rows if row["duration"] > 5), key=lambda row: row["duration"])
        return row["id"], decode(needs.RECORDINGS / row["audio"])
    if not shutil.which("espeak-ng"):
        pytest.skip("no recordings in ../shared/data and no espeak-ng to speak")
    path = folder / "espeak.wav"
    subprocess.run(["espeak-ng", "-s", "150", "-w", path, SENTENCE], check=True)
    return "espeak-ng", decode(path)


def steady(folder: Path) -> NDArray[np.float32]:
    """Return samples (N,) of speech whose text does not hang on their last bits.

    Browsers that decode a file round those in their own way.
    """
    manifest = needs.RECORDINGS / "dev.jsonl"
    if not manifest.exists():
        return speech(folder)[1]
    rows = (json.loads(line) for line in manifest.read_text().splitlines())
    [row] = [row for row in rows if row["id"] == STEADY]
    return decode(needs.RECORDINGS / row["audio"])[: round(SECONDS * RATE)]


def write(path: Path, samples: NDArray[np.float32], rate: int = RATE) -> Path:
    """Write (N,) samples as 16-bit wav and return the path."""
    soundfile.write(path, samples, rate, subtype="PCM_16")
    return path
