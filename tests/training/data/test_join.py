"""Streams with pauses are a speaker's recordings and noise like theirs, and nothing else."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from cortado.model.audio.decode import decode
from cortado.model.features.framing import SAMPLE_RATE
from cortado.tests.training.recorded import write_rows
from cortado.training.data.evaluation_sets import gather
from cortado.training.data.join import MANIFEST, join, noise_like


def corpus(folder: Path) -> Path:
    """Write recordings of two speakers, some of them long; return their manifest."""
    random, rows = np.random.default_rng(0), []
    for n, (speaker, seconds) in enumerate([("a", 20), ("b", 3), ("a", 30), ("a", 2)]):
        sound = random.normal(0, 0.1, seconds * SAMPLE_RATE)
        sound[SAMPLE_RATE:][:8000] *= 0.01
        soundfile.write(folder / f"{n}.flac", sound, SAMPLE_RATE)
        texts = {"audio": f"{n}.flac", "duration": seconds, "speaker": speaker}
        rows.append(texts | {"id": str(n), "text": f"word {n}"})
    return write_rows(folder / "dev.jsonl", rows)


def test_a_stream_is_a_speakers_recordings_behind_pauses(tmp_path: Path) -> None:
    manifest, out = corpus(tmp_path), tmp_path / "out"
    joined = join(manifest, out, 2.0)
    [read] = gather([out])
    assert [one.text for one in read.utterances] == ["word 0 word 2", "word 3", "word 1"]
    assert [one.speaker for one in read.utterances] == ["a", "a", "b"]
    assert [one.duration for one in read.utterances] == pytest.approx(
        [one.duration for one in joined]
    )
    for one, seconds in zip(joined, (50 + 4, 2 + 2, 3 + 2), strict=True):
        assert one.duration == pytest.approx(seconds, abs=1.2)
        assert len(decode(one.audio)) == round(one.duration * SAMPLE_RATE)
    stream, last = decode(joined[0].audio), decode(tmp_path / "2.flac")
    np.testing.assert_array_equal(stream[-len(last) :], last)
    before = stream[: round(1.4 * SAMPLE_RATE)]
    assert before.std() == pytest.approx(0.001, rel=0.1)
    bytes_before = [one.audio.read_bytes() for one in joined]
    assert [one.audio.read_bytes() for one in join(manifest, out, 2.0)] == bytes_before


def test_strangers_do_not_share_a_stream(tmp_path: Path) -> None:
    manifest = corpus(tmp_path)
    manifest.write_text(manifest.read_text().replace('"speaker": "a"', '"speaker": "unknown"'))
    texts = [one.text for one in join(manifest, tmp_path / "out", 0)]
    assert texts == ["word 0", "word 1", "word 2", "word 3"]


def test_without_pauses_recordings_follow_each_other(tmp_path: Path) -> None:
    one, *_ = join(corpus(tmp_path), tmp_path / "out", 0)
    assert one.duration == 50
    assert (tmp_path / "out" / MANIFEST).exists()


def test_a_pause_has_the_spectrum_of_the_quietest_part() -> None:
    random = np.random.default_rng(0)
    loud = random.normal(0, 0.1, 2 * SAMPLE_RATE)
    quiet = np.cumsum(random.normal(0, 1e-4, SAMPLE_RATE))  # low frequencies
    found = noise_like(np.concatenate([loud, quiet, loud]).astype(np.float32), 40_000, random)
    spectrum = np.abs(np.fft.rfft(found)) ** 2
    assert spectrum[:2000].sum() > 0.9 * spectrum.sum()


def test_a_pause_below_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 0 seconds, got -1"):
        join(corpus(tmp_path), tmp_path / "out", -1)


def test_recordings_are_not_overwritten_by_streams(tmp_path: Path) -> None:
    manifest = corpus(tmp_path)
    with pytest.raises(ValueError, match="expected another folder than that of the recordings"):
        join(manifest, tmp_path, 1)
    assert not (tmp_path / MANIFEST).exists()
