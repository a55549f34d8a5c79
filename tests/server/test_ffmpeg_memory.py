"""How much memory FFmpeg takes for a small file, in a process of its own."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import soundfile

from cortado.tests.server.doors.sound import fragment

SCRIPT = """
import re, sys
from contextlib import suppress
from pathlib import Path
from cortado.model.audio.decode import decode
from cortado.model.audio.error import AudioError
from cortado.server.memory import bound_ffmpeg

def most():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024

bound_ffmpeg()
decode(Path(sys.argv[1]))
before = most()
with suppress(AudioError):
    decode(Path(sys.argv[2]))
print(most() - before)
"""


def test_a_file_of_2_kb_that_names_millions_of_packets_takes_little_memory(tmp_path: Path) -> None:
    good, greedy = tmp_path / "good.wav", tmp_path / "greedy.mp4"
    soundfile.write(good, np.zeros(16_000), 16_000)
    greedy.write_bytes(fragment(10_000_000, bytes(1000)))
    command = [sys.executable, "-c", SCRIPT, str(good), str(greedy)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert int(done.stdout) < 64  # MB
