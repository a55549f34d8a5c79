"""The cache of log-mel frames grows, and survives a kill at any byte."""

import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr
import torch
from numpy.typing import NDArray

from cortado.model.config import FeatureConfig
from cortado.model.features.framing import HOP, MELS
from cortado.model.features.log_mel import LogMel
from cortado.model.lock import LOCK
from cortado.model.vocabulary import Vocabulary
from cortado.tests.model.locking import another_process_holding
from cortado.tests.training.recorded import rows_of, write_rows
from cortado.tests.training.tiny import TEXTS, corpus, spoken
from cortado.training.data import log_mel_cache as logmel
from cortado.training.data.log_mel_cache import CachedCorpus, cached
from cortado.training.data.manifest import Utterance

TWO, THREE = TEXTS[:2], TEXTS[:3]


def sound(found: CachedCorpus, texts: list[str]) -> bool:
    """Whether a corpus holds the frames of the texts' recordings."""
    assert [utterance.text for utterance in found.utterances] == texts
    for k, text in enumerate(texts):
        wanted = LogMel()(torch.from_numpy(spoken(text)).unsqueeze(0))[0].numpy()
        frames = found.logmel(k)
        assert frames.dtype == np.float32
        assert frames.shape == (len(spoken(text)) // HOP, MELS)
        np.testing.assert_allclose(frames, wanted, atol=0.2)  # half precision, 16-bit audio
    return True


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the recordings that were read."""
    ids: list[str] = []
    frames = logmel._frames

    def noted(played: tuple[Utterance, float], features: FeatureConfig) -> NDArray[np.float16]:
        ids.append(played[0].id)
        return frames(played, features)

    monkeypatch.setattr(logmel, "_frames", noted)
    return ids


def test_frames_are_those_of_the_recordings(tmp_path: Path) -> None:
    assert sound(cached(corpus(tmp_path / "tones"), tmp_path / "cache"), TEXTS)


def test_two_runs_fill_one_cache_one_after_the_other(tmp_path: Path, computed: list[str]) -> None:
    manifest, cache = corpus(tmp_path / "tones"), tmp_path / "cache"
    folder = cached(manifest, cache).folder
    (folder / "index.jsonl").unlink()
    computed.clear()
    with ThreadPoolExecutor() as threads:
        with another_process_holding(folder / LOCK):
            found = threads.submit(cached, manifest, cache)
            time.sleep(0.5)
            assert not computed
        assert sound(found.result(), TEXTS)
    assert len(computed) == len(TEXTS)


def test_a_recording_is_there_at_each_speed(tmp_path: Path, computed: list[str]) -> None:
    manifest, cache = corpus(tmp_path / "tones", TWO), tmp_path / "cache"
    assert sound(cached(manifest, cache), TWO)
    found = cached(manifest, cache, speeds=(1.0, 0.8))
    assert computed == ["train-0", "train-1"] * 2  # those that were there are kept
    assert [one.key for one in found.utterances] == [
        (name, speed) for speed in (1.0, 0.8) for name in ("train-0", "train-1")
    ]
    assert [one.text for one in found.utterances] == TWO * 2
    slow = soxr.resample(spoken(TWO[0]), 12_800, 16_000)
    wanted = LogMel()(torch.from_numpy(slow).unsqueeze(0))[0].numpy()
    np.testing.assert_allclose(found.logmel(2), wanted, atol=0.2)
    assert sound(cached(manifest, cache), TWO)


def test_another_process_gets_the_place_of_the_frames_not_their_content(tmp_path: Path) -> None:
    found = cached(corpus(tmp_path), tmp_path / "cache")
    pickled = pickle.dumps(found)
    assert len(pickled) < (found.folder / "frames.f16").stat().st_size / 10
    assert sound(pickle.loads(pickled), TEXTS)


def test_nothing_is_computed_twice(tmp_path: Path, computed: list[str]) -> None:
    manifest = corpus(tmp_path / "tones", THREE)
    cached(manifest, tmp_path / "cache")
    assert sound(cached(manifest, tmp_path / "cache"), THREE)
    assert computed == ["train-0", "train-1", "train-2"]


def test_the_cache_grows_with_its_manifest(tmp_path: Path, computed: list[str]) -> None:
    cached(corpus(tmp_path / "tones", TWO), tmp_path / "cache")
    assert sound(cached(corpus(tmp_path / "tones", TEXTS), tmp_path / "cache"), TEXTS)
    assert computed == [f"train-{k}" for k in range(len(TEXTS))]


def test_a_manifest_that_lost_utterances_or_their_order_gets_its_own(tmp_path: Path) -> None:
    manifest = corpus(tmp_path / "tones", THREE)
    cached(manifest, tmp_path / "cache")
    lines = manifest.read_text().splitlines(keepends=True)
    manifest.write_text(lines[2] + lines[0])
    assert sound(cached(manifest, tmp_path / "cache"), [THREE[2], THREE[0]])


def test_a_corrected_text_is_the_manifest_s(tmp_path: Path, computed: list[str]) -> None:
    manifest = corpus(tmp_path / "tones", TWO)
    cached(manifest, tmp_path / "cache")
    rows = rows_of(manifest)
    rows[1]["text"] = "its"
    write_rows(manifest, rows)
    found = cached(manifest, tmp_path / "cache")
    assert [utterance.text for utterance in found.utterances] == ["a cat", "its"]
    assert len(computed) == 2


def test_a_recording_that_has_changed_is_computed_anew(tmp_path: Path, computed: list[str]) -> None:
    manifest, cache = corpus(tmp_path / "tones", THREE), tmp_path / "cache"
    cached(manifest, cache, speeds=(1.0, 0.8))
    changed = tmp_path / "tones/train-1.wav"
    samples, rate = soundfile.read(changed, dtype="float32")
    soundfile.write(changed, samples / 2, rate)  # as long as it was
    (tmp_path / "tones/train-2.wav").unlink()  # what is kept of it serves
    del computed[:]
    for _ in range(2):  # computed, then read
        found = cached(manifest, cache, speeds=(1.0, 0.8))
        assert computed == ["train-1"] * 2
        wanted = LogMel()(torch.from_numpy(samples / 2).unsqueeze(0))[0].numpy()
        np.testing.assert_allclose(found.logmel(1), wanted, atol=0.2)
    assert sound(CachedCorpus(found.folder, [found.utterances[k] for k in (0, 2)]), THREE[::2])


def test_a_broken_line_of_the_index_is_mended(tmp_path: Path, computed: list[str]) -> None:
    manifest = corpus(tmp_path / "tones", THREE)
    index = cached(manifest, tmp_path / "cache").folder / "index.jsonl"
    lines = index.read_text().splitlines(keepends=True)
    for broken in ("{\n", "[]\n", '{"id": "train-1"}\n'):
        del computed[:]
        index.write_text(lines[0] + broken + lines[2])
        assert sound(cached(manifest, tmp_path / "cache"), THREE)
        assert computed == ["train-1", "train-2"]
        assert index.read_text() == "".join(lines)


@pytest.mark.parametrize("index", [0.0, 0.5, 0.66, 1.0])
@pytest.mark.parametrize("frames", [0.0, 0.5, 1.0])
def test_files_cut_anywhere_are_completed(tmp_path: Path, index: float, frames: float) -> None:
    manifest = corpus(tmp_path / "tones", THREE)
    cached(manifest, tmp_path / "cache")
    (folder,) = (tmp_path / "cache").iterdir()
    for name, share in (("index.jsonl", index), ("frames.f16", frames)):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: int(share * len(content))])
    assert sound(cached(manifest, tmp_path / "cache"), THREE)
    assert sound(cached(manifest, tmp_path / "cache"), THREE)  # what was mended stays so


def test_two_manifests_of_one_name_have_caches_of_their_own(tmp_path: Path) -> None:
    one, other = corpus(tmp_path / "a/tones", TWO), corpus(tmp_path / "b/tones", THREE)
    cached(one, tmp_path / "cache")
    assert sound(cached(other, tmp_path / "cache"), THREE)
    assert sound(cached(one, tmp_path / "cache"), TWO)


def test_progress_is_told_of_what_is_computed(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    manifest = corpus(tmp_path / "tones", THREE)
    for _ in range(2):
        cached(manifest, tmp_path / "cache", progress=lambda *done: told.append(done))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_a_recording_that_is_not_there_is_named(tmp_path: Path) -> None:
    manifest = corpus(tmp_path / "tones", TWO)
    (tmp_path / "tones/train-1.wav").unlink()
    with pytest.raises(ValueError, match=r"train-1.wav"):
        cached(manifest, tmp_path / "cache")


def test_a_recording_shorter_than_a_frame_is_named(tmp_path: Path) -> None:
    manifest = corpus(tmp_path / "tones", ["x"])
    soundfile.write(tmp_path / "tones" / "train-0.wav", np.zeros(100, np.float32), 16_000)
    with pytest.raises(
        ValueError, match=r"train-0\.wav: expected at least 10 ms of audio, got 6\.25 ms of"
    ):
        cached(manifest, tmp_path / "cache")


def test_texts_may_hold_the_recogniser_s_characters_and_no_others(tmp_path: Path) -> None:
    manifest = corpus(tmp_path / "tones", ["x"])
    write_rows(manifest, [rows_of(manifest)[0] | {"text": "x ~"}])
    with pytest.raises(ValueError, match="expected characters among"):
        cached(manifest, tmp_path / "cache")
    found = cached(manifest, tmp_path / "cache", vocabulary=Vocabulary(" x~"))
    assert found.utterances[0].text == "x ~"


def test_frames_of_other_bands_have_a_cache_of_their_own(tmp_path: Path) -> None:
    manifest, features = corpus(tmp_path / "tones", TWO), FeatureConfig(mels=40, energy=True)
    usual = cached(manifest, tmp_path / "cache")
    for _ in range(2):  # computed, then read
        found = cached(manifest, tmp_path / "cache", features=features)
        assert found.bands == 41
        wanted = LogMel(features)(torch.from_numpy(spoken(TWO[1])).unsqueeze(0))[0].numpy()
        np.testing.assert_allclose(found.logmel(1), wanted, atol=0.2)
    assert usual.bands == MELS
    assert sound(cached(manifest, tmp_path / "cache"), TWO)
