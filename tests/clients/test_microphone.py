"""`cortado mic`: a real input device of the sound system, and words where there is none."""

import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console
from rich.text import Text

from cortado.clients import cli
from cortado.clients.captioning import Captions, caption, meter
from cortado.clients.connection import StreamError
from cortado.clients.microphone import Microphone, MicrophoneError, level
from cortado.server.protocol.messages import Chars, Endpoint
from cortado.tests import needs
from cortado.tests.clients import sounddevice
from cortado.tests.clients.firefox import sound
from cortado.tests.clients.serving import CORTADO, ENVIRONMENT, ROOT, Served
from cortado.tests.clients.terminal import in_terminal
from cortado.tests.clients.test_stream import BROKEN, CHARS, READY, says, stub

Samples = NDArray[np.float32]

# A recording as the default device: ALSA's own plugins, no sound card.
FILE_AS_MICROPHONE = """
pcm.!default { type file slave.pcm null file /dev/null infile "%s" format raw }
"""


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
    ("at_import", "arguments", "help_given"),
    [
        ("raise ModuleNotFoundError('no sounddevice')", (), "make install EXTRAS=mic"),
        ("raise OSError('none')", ("--list-devices",), "apt install libportaudio2"),
    ],
    ids=["sounddevice", "PortAudio"],
)
def test_a_missing_library_is_one_clear_line_and_exit_code_2(
    at_import: str, arguments: tuple[str, ...], help_given: str, tmp_path: Path
) -> None:
    (tmp_path / "sounddevice.py").write_text(at_import)
    done = mic(*arguments, home=tmp_path, python_path=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("cortado: the microphone needs ")
    assert help_given in line


@pytest.mark.parametrize("url", ["talk.example.org", "http://h/v1/stream", "ws://h:port/v1/stream"])
def test_a_wrong_address_is_told_before_any_microphone_is_looked_for(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["mic", "--url", url]) == 2
    expected = f"cortado: expected an address like ws://host:8000/v1/stream, got {url}\n"
    assert capsys.readouterr().err == expected


@pytest.mark.skipif(bool(missing_here()), reason=missing_here())
def test_a_device_that_is_not_there_is_one_clear_line_and_exit_code_2(tmp_path: Path) -> None:
    done = mic("--device", "moon", home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    moon = "cortado: the microphone 'moon' cannot be opened: "
    assert line.startswith((moon, "cortado: no microphone here: connect one"))


@pytest.mark.skipif(bool(missing_here()), reason=missing_here())
def test_a_server_that_is_not_there_is_one_clear_line_and_exit_code_2(
    tmp_path: Path, recording: Path
) -> None:
    (tmp_path / ".asoundrc").write_text(FILE_AS_MICROPHONE % recording)
    done = mic("--url", "ws://127.0.0.1:9/v1/stream", home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("cortado: unreachable: no server at ws://127.0.0.1:9/v1/stream (")


@pytest.mark.skipif(bool(missing_here()), reason=missing_here())
def test_what_the_device_gives_is_written_as_it_is_transcribed(
    server: Served, transcribed: dict[str, Any], spoken: NDArray[np.float32], tmp_path: Path
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
    until = len(spoken) / 16000 - 0.5  # from there on it matters what followed
    certain = "".join(each["text"] for each in transcribed["characters"] if each["time"] < until)
    assert certain
    assert done.stdout.startswith(certain)


@pytest.mark.skipif(bool(missing_here()), reason=missing_here())
def test_phrases_go_to_the_server_which_refuses_those_without_letters(
    server: Served, recording: Path, tmp_path: Path
) -> None:
    (tmp_path / ".asoundrc").write_text(FILE_AS_MICROPHONE % recording)
    done = mic("--url", server.stream, "--phrase", "Ada", "--phrase", "42", home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("cortado: invalid_message: phrases: expected a phrase with letters of")


class Heard:
    """A microphone that hears nothing."""

    seconds = 3.0
    level = -20.0


def captions(terminal: bool) -> Captions:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=80, highlight=False)
    return Captions(cast(Microphone, Heard()), console)


def said(found: Captions, *texts: str | None) -> str:
    """Say texts, None for the end of an utterance; return what is on the console."""
    for text in texts:
        if text is None:
            found.add(Endpoint(utterance=0, start=0, end=0, position=0))
        else:
            found.add(
                Chars(
                    text=text, times=[1.5] * len(text), confidences=[1.0] * len(text), position=2.5
                )
            )
    return cast(io.StringIO, found.console.file).getvalue()


@pytest.mark.parametrize(
    ("texts", "lines"),
    [
        (["so", " be", " it"], "so be it"),
        (["so", None, " be it", None], "so\nbe it"),
        (["so ", None, "be it"], "so \nbe it"),
    ],
)
def test_each_utterance_has_a_line_of_its_own(texts: list[str | None], lines: str) -> None:
    assert said(captions(terminal=False), *texts) == lines


def test_a_terminal_shows_utterances_with_times_level_and_delay() -> None:
    found = captions(terminal=True)
    assert "00:01" in said(found, "so", None, " be")
    found.console.print(found)
    shown = cast(io.StringIO, found.console.file).getvalue()
    for part in ("so", "be", "-20 dB", "0.5 s behind", "00:03", "listening", "Ctrl-C ends"):
        assert part in shown


@needs.full_disk
def test_what_was_said_stays_where_the_terminal_takes_no_more() -> None:
    found = captions(terminal=True)
    said(found, "so")
    with Path("/dev/full").open("wb", buffering=0) as full:
        found.console.file = io.TextIOWrapper(full, write_through=True)
        with pytest.raises(OSError, match="No space left"):
            found.end_utterance()
    assert [[one.text for one in utterance] for utterance in found.utterances] == [["s", "o"]]


def test_a_device_that_does_not_start_is_one_clear_error(
    recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(self: sounddevice.RawInputStream) -> None:
        raise sounddevice.PortAudioError("device unavailable")

    monkeypatch.setattr(sounddevice.RawInputStream, "start", start)
    monkeypatch.setitem(sys.modules, "sounddevice", sounddevice)
    with pytest.raises(MicrophoneError, match=r"the microphone cannot be opened.*unavailable"):
        list(Microphone())


async def test_what_was_said_stays_where_the_stream_breaks_off(
    recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAV", os.fspath(recording))
    monkeypatch.setitem(sys.modules, "sounddevice", sounddevice)
    found = Captions(Microphone(), Console(file=io.StringIO()))
    async with stub(says(READY, CHARS, BROKEN)) as url:
        with pytest.raises(StreamError, match="invalid_audio: broken"):
            await caption(found, url, print)
    assert [[one.text for one in utterance] for utterance in found.utterances] == [["a"]]


@pytest.mark.parametrize(
    ("samples", "expected"), [(np.zeros(9), -96.0), (np.ones(9), 0.0), (np.full(9, 0.1), -20.0)]
)
def test_a_level_is_in_decibels_of_full_scale(samples: Samples, expected: float) -> None:
    assert level(samples.astype(np.float32)) == pytest.approx(expected, abs=1e-4)
    assert str(meter(expected)).count("█") == round(max(0, (expected + 60) / 60) * 20)


def test_a_terminal_without_utf_8_has_a_meter_of_its_own_characters() -> None:
    out = io.TextIOWrapper(io.BytesIO(), "ascii")
    console = Console(file=out, force_terminal=True, width=80)
    console.print(Captions(Mock(seconds=1.0, level=-30.0), console))  # an error where it has none
    out.seek(0)
    assert "##########----------  -30 dB" in Text.from_ansi(out.read()).plain


@pytest.mark.skipif(bool(missing_here()), reason=missing_here())
@needs.pulseaudio
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 0), (signal.SIGHUP, 129)])
def test_a_terminal_captions_what_a_sound_server_plays_and_saves_it(
    sent: signal.Signals, code: int, server: Served, text: str, recording: Path, tmp_path: Path
) -> None:
    (tmp_path / ".asoundrc").write_text("pcm.!default { type pulse }")
    (tmp_path / "sound").mkdir()
    saved = tmp_path / "saved.srt"
    command = [*CORTADO, "mic", "--pick", "--url", server.stream, "--output", str(saved)]
    with sound(tmp_path / "sound") as heard:
        environment = {**ENVIRONMENT, **heard.environment, "HOME": os.fspath(tmp_path)}
        with in_terminal(command, environment, os.fspath(ROOT)) as terminal:
            terminal.wait_for("Microphone")
            terminal.type("\n")  # the system's default
            terminal.wait_for("listening")
            heard.play(recording)
            terminal.wait_for("s behind")
            terminal.process.send_signal(sent)
            assert terminal.process.wait(60) == code, terminal.text
    said = " ".join(line for line in saved.read_text().splitlines() if line.islower())
    # A busy machine loses sound on the way here; what is left is what was played.
    assert len(set(said.split()) & set(text.split())) >= 3, said
    assert "00:00:0" in saved.read_text()
