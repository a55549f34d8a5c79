"""Files to text by a recogniser whose text is nonsense, but depends on the audio."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from cortado.model.audio.decode import decode
from cortado.model.audio.error import AudioError
from cortado.model.files import transcripts
from cortado.model.streaming.live import listen
from cortado.model.streaming.recordings import transcribe
from cortado.model.writing import write_results, write_text
from cortado.tests.model.untrained import noise, online


def wav(path: Path, seed: int, seconds: float = 1.0, rate: int = 16_000) -> Path:
    soundfile.write(path, noise(seed, seconds * rate / 16_000), rate)
    return path


def run(files: list[Path], form: str = "txt") -> tuple[str, list[str]]:
    """The text written and what was complained about."""
    out, complaints = io.StringIO(), list[AudioError]()
    if form == "txt" and len(files) == 1:
        whole = write_text(lambda _: online(), files[0], out, complaints.append)
    else:
        found = transcripts(lambda _: online(), files)
        whole = write_results(found, len(files), form, out, complaints.append)
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
    lines = [json.loads(line) for line in run([one, two], "jsonl")[0].splitlines()]
    assert [line["file"] for line in lines] == [str(one), str(two)]
    for line, path in zip(lines, (one, two), strict=True):
        assert list(line) == ["file", "text", "duration", "characters", "utterances"]
        assert line["text"] == text_of(path)
        assert line["duration"] == 1.0
        live = [one for update in listen(online(), [decode(path)]) for one in update.characters]
        assert line["characters"] == [{"text": one.text, "time": one.time} for one in live]
        assert max(one.time for one in live) == 1.0  # and none behind the end of the sound


@pytest.mark.parametrize("form", ["txt", "jsonl"])
def test_a_bad_file_is_complained_about_and_the_others_are_done(tmp_path: Path, form: str) -> None:
    good, last = wav(tmp_path / "a.wav", 1), wav(tmp_path / "z.wav", 2)
    empty, text = tmp_path / "empty.wav", tmp_path / "text.txt"
    empty.touch()
    text.write_text("no audio\n")
    bad = [tmp_path / "missing.wav", tmp_path, empty, text]
    out, complaints = run([good, *bad, last], form)
    assert [line.split(": expected")[0] for line in complaints] == [str(path) for path in bad]
    if form == "jsonl":
        assert [json.loads(line)["file"] for line in out.splitlines()] == [str(good), str(last)]
    else:
        wanted = f"==> {good} <==\n{text_of(good)}\n==> {last} <==\n{text_of(last)}\n"
        assert out == wanted


def test_a_cut_file_gives_its_text_and_then_a_complaint(tmp_path: Path) -> None:
    path, whole = wav(tmp_path / "cut.wav", 1, 3.0), wav(tmp_path / "whole.wav", 2)
    soundfile.write(tmp_path / "left.wav", noise(1, 3.0)[:39_978], 16_000)
    path.write_bytes(path.read_bytes()[:80_000])
    (alone, [complaint]), (beside, [same]) = run([path]), run([path, whole])
    assert "bytes short" in complaint == same
    assert alone == f"{text_of(tmp_path / 'left.wav')}\n", "to its last sound"
    assert alone in beside.removeprefix(f"==> {path} <==")
    assert run([path], "srt") == ("", [complaint])


def test_files_beside_one_another_give_what_each_gives_alone(tmp_path: Path) -> None:
    lengths = [0.5, 2.0, 0.01, 1.0, 0.3]
    paths = [wav(tmp_path / f"{k}.wav", k, length) for k, length in enumerate(lengths)]
    together, _ = run(paths, "json")
    assert together.splitlines() == [run([path], "json")[0].rstrip("\n") for path in paths]
    found = [one.number for one in transcripts(lambda _: online(), paths)]
    assert sorted(found) == [0, 1, 2, 3, 4] != found  # as they end


def test_more_files_than_rows_take_turns(tmp_path: Path) -> None:
    paths = [wav(tmp_path / f"{k}.wav", k, 0.2 * (k + 1)) for k in range(5)]
    reports = list[tuple[int, int]]()
    report = lambda *far: reports.append(far)  # noqa: E731
    found = list(transcripts(lambda _: online(), paths, report=report, streams=2))
    texts = {one.path: one.transcript for one in found}
    assert ["".join(c.text for c in texts[path].characters) for path in paths] == [
        text_of(path) for path in paths
    ]
    assert reports == sorted(reports)
    assert reports[-1] == (5, sum(path.stat().st_size for path in paths))


def test_a_file_is_not_read_before_its_sound_is_heard(tmp_path: Path) -> None:
    path = wav(tmp_path / "long.wav", 1, seconds=8)
    reports = list[tuple[int, int]]()
    results = transcripts(lambda _: online(), [path], report=lambda *far: reports.append(far))
    list(results)
    steps = np.diff([read for _, read in reports])
    assert steps.max() <= 40_000  # of 256,000 bytes: what FFmpeg reads at once


def test_text_is_written_while_the_file_is_still_being_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = wav(tmp_path / "long.flac", 1, seconds=3)
    flushed: list[int] = []
    out = io.StringIO()
    monkeypatch.setattr(out, "flush", lambda: flushed.append(len(out.getvalue())))
    write_text(lambda _: online(), path, out, lambda _: None)
    assert len(flushed) > 10
    assert flushed == sorted(flushed)


@pytest.mark.parametrize(
    ("samples", "rate"), [(1, 16_000), (150, 16_000), (3, 44_100), (400, 44_100)]
)
def test_a_sample_at_16_khz_is_enough(tmp_path: Path, samples: int, rate: int) -> None:
    path = tmp_path / "short.wav"
    soundfile.write(path, noise(1, samples / 16_000), rate)
    out, complaints = run([path], "jsonl")
    assert complaints == []
    assert json.loads(out)["duration"] == pytest.approx(samples / rate, abs=1e-3)


def test_a_file_without_a_sample_is_complained_about(tmp_path: Path) -> None:
    path = tmp_path / "none.wav"
    soundfile.write(path, np.zeros(0), 16_000)
    assert run([path]) == ("", [f"{path}: expected at least one sample, got none"])
