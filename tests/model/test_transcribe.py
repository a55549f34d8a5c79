"""Files to text by a recogniser whose text is nonsense, but depends on the audio."""

import io
import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import soundfile

from cortado.model.audio.decode import AudioError, decode
from cortado.model.backends.reference import ReferenceRecognizer
from cortado.model.files import transcribe_files
from cortado.model.streaming.recordings import transcribe
from cortado.tests.model.untrained import noise, untrained


@cache
def online() -> ReferenceRecognizer:
    return untrained()


def wav(path: Path, seed: int, seconds: float = 1.0, rate: int = 16_000) -> Path:
    soundfile.write(path, noise(seed, seconds * rate / 16_000), rate)
    return path


def run(files: list[Path], as_json: bool = False) -> tuple[str, list[str]]:
    """The text written and what was complained about."""
    out, complaints = io.StringIO(), list[AudioError]()
    whole = transcribe_files(lambda _: online(), files, as_json, out, complaints.append)
    assert whole == (not complaints)
    return out.getvalue(), [str(one) for one in complaints]


def text_of(path: Path) -> str:
    return "".join(one.text for one in transcribe(online(), decode(path)))


def test_one_file_is_its_text_and_no_header(tmp_path: Path) -> None:
    path = wav(tmp_path / "a.wav", 1)
    assert run([path]) == (text_of(path) + "\n", [])
    assert len(text_of(path)) > 5


def test_several_files_have_headers(tmp_path: Path) -> None:
    one, two = wav(tmp_path / "a.wav", 1), wav(tmp_path / "b.wav", 2)
    wanted = f"==> {one} <==\n{text_of(one)}\n==> {two} <==\n{text_of(two)}\n"
    assert run([one, two]) == (wanted, [])


def test_json_is_one_object_a_line_with_the_time_of_each_character(tmp_path: Path) -> None:
    one, two = wav(tmp_path / "a.wav", 1), wav(tmp_path / "b.wav", 2, rate=48_000)
    lines = [json.loads(line) for line in run([one, two], as_json=True)[0].splitlines()]
    assert [line["file"] for line in lines] == [str(one), str(two)]
    for line, path in zip(lines, (one, two), strict=True):
        assert list(line) == ["file", "text", "duration", "characters", "utterances"]
        assert line["text"] == text_of(path)
        assert line["duration"] == 1.0
        assert line["characters"] == [
            {"text": one.text, "time": one.time} for one in transcribe(online(), decode(path))
        ]


@pytest.mark.parametrize("as_json", [False, True])
def test_a_bad_file_is_complained_about_and_the_others_are_done(
    tmp_path: Path, as_json: bool
) -> None:
    good, last = wav(tmp_path / "a.wav", 1), wav(tmp_path / "z.wav", 2)
    empty, text = tmp_path / "empty.wav", tmp_path / "text.txt"
    empty.touch()
    text.write_text("no audio\n")
    bad = [tmp_path / "missing.wav", tmp_path, empty, text]
    out, complaints = run([good, *bad, last], as_json)
    assert [line.split(": expected")[0] for line in complaints] == [str(path) for path in bad]
    if as_json:
        assert [json.loads(line)["file"] for line in out.splitlines()] == [str(good), str(last)]
    else:
        wanted = f"==> {good} <==\n{text_of(good)}\n==> {last} <==\n{text_of(last)}\n"
        assert out == wanted


def test_a_cut_file_gives_its_text_and_then_a_complaint(tmp_path: Path) -> None:
    path = wav(tmp_path / "cut.wav", 1)
    path.write_bytes(path.read_bytes()[:20_000])
    out, complaints = run([path])
    assert len(out.strip()) > 1
    assert "bytes short" in complaints[0]


def test_text_is_written_while_the_file_is_still_being_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = wav(tmp_path / "long.flac", 1, seconds=3)
    flushed: list[int] = []
    out = io.StringIO()
    monkeypatch.setattr(out, "flush", lambda: flushed.append(len(out.getvalue())))
    transcribe_files(lambda _: online(), [path], False, out, lambda _: None)
    assert len(flushed) > 10
    assert flushed == sorted(flushed)


@pytest.mark.parametrize(
    ("samples", "rate"), [(1, 16_000), (150, 16_000), (3, 44_100), (400, 44_100)]
)
def test_a_sample_at_16_khz_is_enough(tmp_path: Path, samples: int, rate: int) -> None:
    path = tmp_path / "short.wav"
    soundfile.write(path, noise(1, samples / 16_000), rate)
    out, complaints = run([path], as_json=True)
    assert complaints == []
    assert json.loads(out)["duration"] == pytest.approx(samples / rate, abs=1e-3)


def test_a_file_without_a_sample_is_complained_about(tmp_path: Path) -> None:
    path = tmp_path / "none.wav"
    soundfile.write(path, np.zeros(0), 16_000)
    assert run([path]) == ("", [f"{path}: expected at least one sample, got none"])
