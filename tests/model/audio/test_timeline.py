"""Sound at the times that a container gives it."""

from pathlib import Path

import numpy as np
import pytest

from cortado.model.arrays import Samples
from cortado.model.audio import decode as decode_module
from cortado.model.audio import timeline
from cortado.model.audio.decode import decode
from cortado.model.audio.error import AudioError
from cortado.model.audio.streamed import StreamedAudio
from cortado.tests.model.audio.recorded import record, streamed

RATE = 16_000
FILES = [("hole.webm", "libopus"), ("hole.m4a", "aac"), ("hole.mkv", "aac"), ("hole.ts", "aac")]


def silent(samples: Samples) -> list[tuple[float, float]]:
    """Return where there is silence of half a second or more, in seconds."""
    tenths = samples[: len(samples) // 1600 * 1600].reshape(-1, 1600)
    quiet = [0, *(np.abs(tenths).max(axis=1) < 1e-3), 0]
    begins, ends = np.flatnonzero(np.diff(quiet) > 0), np.flatnonzero(np.diff(quiet) < 0)
    return [
        (begin / 10, end / 10) for begin, end in zip(begins, ends, strict=True) if end - begin > 4
    ]


def pushed(data: bytes) -> Samples:
    """Return the samples of a file that comes in messages."""
    audio = StreamedAudio("audio")
    pieces = [p for k in range(0, len(data), 999) for p in audio.push(data[k : k + 999])]
    return np.concatenate([*pieces, *audio.end()])


@pytest.mark.parametrize(("name", "codec"), FILES)
def test_packets_that_a_recorder_left_out_are_silence(
    tmp_path: Path, name: str, codec: str
) -> None:
    samples = decode(record(tmp_path / name, codec, hole=(2.0, 4.0)))
    assert len(samples) / RATE == pytest.approx(6, abs=0.1)
    [(begin, end)] = silent(samples)
    assert begin == pytest.approx(2, abs=0.15)
    assert end == pytest.approx(4, abs=0.15)


@pytest.mark.parametrize(
    ("name", "codec"), [("live.webm", "libopus"), ("live.mp4", "aac"), ("film.mp4", "aac")]
)
def test_a_stream_has_the_same_silence(tmp_path: Path, name: str, codec: str) -> None:
    is_film = name == "film.mp4"
    start, hole = (2.5, (0.0, 0.0)) if is_film else (0.0, (2.0, 4.0))
    path = record(tmp_path / name, codec, start=start, hole=hole, film=is_film, live=True)
    samples = pushed(path.read_bytes())
    np.testing.assert_allclose(samples, decode(path), atol=1e-6)
    [(begin, end)] = silent(samples)
    assert end - begin == pytest.approx(start or 2, abs=0.15)


@pytest.mark.parametrize("suffix", ["webm", "mkv"])
def test_sound_alone_that_starts_late_starts_at_0(tmp_path: Path, suffix: str) -> None:
    samples = decode(record(tmp_path / f"late.{suffix}", "libopus", start=5))
    assert np.array_equal(samples, decode(record(tmp_path / f"early.{suffix}", "libopus")))


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "ts"])
def test_a_film_s_sound_starts_where_it_is_heard(tmp_path: Path, suffix: str) -> None:
    samples = decode(record(tmp_path / f"film.{suffix}", "aac", start=2.98, film=True))
    assert len(samples) / RATE == pytest.approx(8.98, abs=0.1)
    assert silent(samples) == [(0, 2.9)]


def test_a_hole_is_no_cut_and_a_cut_behind_one_is(tmp_path: Path) -> None:
    path = record(tmp_path / "cut.webm", "libopus", seconds=12, hole=(2.0, 4.0))
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 3 // 4])
    with pytest.raises(AudioError, match=r"expected the 1\d\.\d\d s that it announces, got \d"):
        decode(path)


def test_a_time_far_ahead_is_believed_only_as_far_as_the_file_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = record(tmp_path / "jump.webm", "libopus", hole=(2.0, 4.0), live=True)  # no duration
    assert len(decode(path)) / RATE == pytest.approx(6, abs=0.1)
    monkeypatch.setattr(timeline, "LONGEST_GAP", 1.0)
    assert len(decode(path)) / RATE == pytest.approx(4, abs=0.1)
    stated = record(tmp_path / "stated.webm", "libopus", hole=(2.0, 4.0))
    assert len(decode(stated)) / RATE == pytest.approx(6, abs=0.1)
    data = stated.read_bytes()
    place = data.index(b"\x44\x89\x88") + 3  # Matroska's duration, in milliseconds
    stated.write_bytes(data[:place] + np.array(3000, ">f8").tobytes() + data[place + 8 :])
    assert len(decode(stated)) / RATE == pytest.approx(4, abs=0.1)


def test_a_long_hole_takes_constant_memory_and_is_not_endless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = record(tmp_path / "long.webm", "libopus", seconds=620, hole=(2.0, 615.0))
    count, peak = streamed(path)
    assert count / RATE == pytest.approx(620, abs=0.1)
    assert peak < 4e6  # bytes; the whole would be 40 MB
    monkeypatch.setattr(decode_module, "HOUR", 10)
    monkeypatch.setattr(decode_module, "LEAST_RATE", 1e6)
    with pytest.raises(AudioError, match="expected at most 10 s in"):
        decode(path)


@pytest.mark.parametrize(
    ("name", "codec", "rate"),
    [
        ("padded.mkv", "libmp3lame", 8_000),
        ("padded.mkv", "libmp3lame", 16_000),
        ("padded.mkv", "aac", 8_000),
        ("padded.mkv", "aac", 16_000),
        ("padded.caf", "alac", 16_000),
    ],
)
def test_a_length_with_the_codec_s_padding_is_no_cut(
    tmp_path: Path, name: str, codec: str, rate: int
) -> None:
    for seconds in (3.0, 3.03, 3.06, 10.925):
        samples = decode(record(tmp_path / name, codec, rate, seconds))
        assert len(samples) / RATE == pytest.approx(seconds, abs=0.27)
