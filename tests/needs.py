"""What some tests need that not every machine has: marks that skip them without it."""

import os
import shutil
from pathlib import Path

import pytest
import torch

RECORDINGS = Path(__file__).resolve().parents[2] / "shared" / "data" / "librispeech-mini"
NAMES = "chromium", "chromium-browser", "google-chrome", "chrome"
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
FIREFOX = shutil.which("firefox") or shutil.which("firefox-esr")


def _mark(there: object, what: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not there, reason=f"needs {what}")


def program(name: str, package: str = "") -> str:
    """Return the path of a program; a test that has none of it is skipped."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"needs {name} (on Debian: apt install {package or name})")
    return path


def installed(name: str) -> pytest.MarkDecorator:
    """Return the mark of tests that run a program, which is a Debian package of that name."""
    return _mark(shutil.which(name), f"{name} (on Debian: apt install {name})")


espeak = installed("espeak-ng")
openssl = installed("openssl")
pulseaudio = installed("pulseaudio")
gpu = _mark(torch.cuda.is_available(), "a GPU")
full_disk = _mark(Path("/dev/full").exists(), "/dev/full, as Linux has it")
recordings = _mark(RECORDINGS.is_dir(), "the recordings of ../shared/data")
quiet_machine = _mark("LONG_TAKE" in os.environ, "minutes of a quiet machine, and LONG_TAKE set")
chromium = _mark(CHROMIUM, "Chromium (on Debian: apt install chromium)")
firefox = _mark(FIREFOX, "Firefox (on Debian: apt install firefox-esr)")
in_chromium = [pytest.mark.browser, pytest.mark.slow, chromium]  # of a module whose tests drive it
