"""`cortado mic`: a real input device of the sound system, and words where there is none."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cortado.clients.microphone import utterance_lines
from cortado.server.protocol.messages import Chars, Endpoint
from cortado.tests.clients.serving import CORTADO, ENVIRONMENT, ROOT, Served, transcribe

# A recording as the default device: ALSA's own plugins, no sound card.
FILE_AS_MICROPHONE = """
pcm.!default { type file slave.pcm null file /dev/null infile "%s" format raw }
"""

pytestmark = pytest.mark.timeout(600)  # a server starts, perhaps beside other work


def missing_here() -> str:
    """Return why no device can be opened here, or nothing."""
    if sys.platform != "linux":
        return "ALSA is Linux's"
    try:
        import sounddevice  # noqa: F401
    except (ModuleNotFoundError, OSError) as error:
        return f"no microphone library: {error} (pip install sounddevice; libportaudio2)"
    return ""


def mic(
    *arguments: str, home: Path, python_path: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    environment = {**ENVIRONMENT, "HOME": os.fspath(home)}
    if python_path:
        environment["PYTHONPATH"] = os.fspath(python_path)
    command = [*CORTADO, "mic", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=180
    )


@pytest.mark.parametrize(
    ("at_import", "help_given"),
    [
        ("raise ModuleNotFoundError('no sounddevice')", "make install EXTRAS=mic"),
        ("raise OSError('PortAudio library not found')", "apt install libportaudio2"),
    ],
    ids=["sounddevice", "PortAudio"],
)
@pytest.mark.parametrize("arguments", [(), ("--list-devices",)], ids=["speak", "list"])
def test_a_missing_library_is_one_clear_line_and_exit_code_2(
    at_import: str, help_given: str, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "sounddevice.py").write_text(at_import)
    done = mic(*arguments, home=tmp_path, python_path=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("cortado: the microphone needs ")
    assert help_given in line


@pytest.mark.skipif(bool(missing_here()), reason=missing_here())
def test_a_device_that_is_not_there_is_one_clear_line_and_exit_code_2(tmp_path: Path) -> None:
    done = mic("--device", "moon", home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("cortado: no microphone 'moon' that can be opened: ")


@pytest.mark.skipif(bool(missing_here()), reason=missing_here())
def test_a_server_that_is_not_there_is_one_clear_line_and_exit_code_2(
    tmp_path: Path, recording: Path
) -> None:
    (tmp_path / ".asoundrc").write_text(FILE_AS_MICROPHONE % recording)
    done = mic("--url", "ws://127.0.0.1:9/v1/stream", home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("cortado: unreachable: no server at ws://127.0.0.1:9/v1/stream: ")


@pytest.mark.skipif(bool(missing_here()), reason=missing_here())
def test_what_the_device_gives_is_written_as_it_is_transcribed(
    server: Served, model: Path, recording: Path, spoken: NDArray[np.float32], tmp_path: Path
) -> None:
    raw = tmp_path / "speech.raw"
    raw.write_bytes(np.round(spoken * 32768).astype("<i2").tobytes())
    (tmp_path / ".asoundrc").write_text(FILE_AS_MICROPHONE % raw)
    listed = mic("--list-devices", home=tmp_path)
    assert listed.returncode == 0
    assert "default" in listed.stdout
    # Without a sound card nothing keeps time: the device runs ahead of any server, which is told.
    done = mic("--url", server.stream, home=tmp_path)
    assert done.returncode == 0
    assert "Speak; Ctrl-C ends." in done.stderr
    [expected] = transcribe(model, recording)
    until = len(spoken) / 16000 - 0.5  # from there on it matters what followed
    certain = "".join(each["text"] for each in expected["characters"] if each["time"] < until)
    assert certain
    assert done.stdout.startswith(certain)


class Said:
    """A stream that says what it is told to."""

    def __init__(self, *said: str | None) -> None:
        self.said = said

    async def messages(self) -> AsyncIterator[Chars | Endpoint]:
        for text in self.said:
            if text is None:
                yield Endpoint(utterance=0, start=0, end=0, position=0)
            else:
                yield Chars(text=text, times=[0] * len(text), position=0)


@pytest.mark.parametrize(
    ("said", "lines"),
    [
        (["so", " be", " it"], "so be it"),
        (["so", None, " be it", None], "so\nbe it"),
        (["so ", None, "be it"], "so \nbe it"),
    ],
)
def test_each_utterance_has_a_line_of_its_own(said: list[str | None], lines: str) -> None:
    async def read() -> str:
        return "".join([text async for text in utterance_lines(Said(*said))])

    assert asyncio.run(read()) == lines
