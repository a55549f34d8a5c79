"""Augmentation keeps shapes, follows its random numbers, and does what it says."""

import dataclasses

import numpy as np
import pytest

from cortado.model.features.filterbank import mel_bank, mel_centres
from cortado.model.features.framing import FFT, MELS, SAMPLE_RATE
from cortado.tests.training.tiny import PLAIN
from cortado.training.data.augment import (
    WARPS,
    Augmentation,
    augmented,
    masked,
    retimed,
    reverberated,
    stretched,
    transmitted,
    warp_matrix,
    with_lead,
)
from cortado.training.data.non_speech import (
    FLOOR,
    QUIET,
    Frames,
    clicks,
    coloured_noise,
    hum,
    music,
    pause_like,
    silence,
)

ALL = Augmentation(noise=1.0, babble=1.0, reverberation=1.0, telephone=1.0)


def random(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def frames(length: int = 50, seed: int = 0) -> Frames:
    return random(seed).normal(-5, 2, (length, MELS)).astype(np.float32).clip(FLOOR)


def changed(
    logmel: Frames, other: Frames | None, config: Augmentation, rng: np.random.Generator
) -> Frames:
    """Change frames as a batch with one view does."""
    babble = None if other is None else lambda: other
    return augmented(retimed(logmel, config, rng), babble, config, rng)


def test_a_configuration_of_nothing_changes_nothing() -> None:
    np.testing.assert_allclose(changed(frames(), None, PLAIN, random()), frames(), atol=1e-6)


@pytest.mark.parametrize("length", [1, 2, 50, 301])
@pytest.mark.parametrize("config", [Augmentation(), ALL, PLAIN])
def test_frames_stay_finite_frames_of_one_type(length: int, config: Augmentation) -> None:
    for seed in range(5):
        found = changed(frames(length), frames(30, 1), config, random(seed))
        assert found.shape[1:] == (MELS,)
        assert found.dtype == np.float32
        assert len(found) >= 1
        assert np.isfinite(found).all()


def test_the_same_random_numbers_give_the_same_frames() -> None:
    one, again, other = (changed(frames(), frames(30, 1), ALL, random(k)) for k in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert one.shape != other.shape or not np.array_equal(one, other)


def test_the_frames_given_are_left_alone() -> None:
    given, other = frames(), frames(30, 1)
    changed(given, other, ALL, random())
    np.testing.assert_array_equal(given, frames())
    np.testing.assert_array_equal(other, frames(30, 1))


@pytest.mark.parametrize(("factor", "length"), [(1.0, 100), (2.0, 50), (0.5, 200), (1.25, 80)])
def test_tempo_changes_the_length(factor: float, length: int) -> None:
    ramp = np.tile(np.arange(100, dtype=np.float32)[:, None], MELS)
    found = stretched(ramp, factor)
    assert len(found) == length
    wanted = np.minimum(np.arange(length) * factor, 99)
    np.testing.assert_allclose(found[:, 0], wanted, rtol=1e-5)


def test_a_drawn_tempo_stays_within_its_bounds() -> None:
    config = dataclasses.replace(PLAIN, tempo=0.2)
    lengths = [len(changed(frames(600), None, config, random(seed))) for seed in range(50)]
    assert 500 <= min(lengths) < 540
    assert 690 < max(lengths) <= 750


@pytest.mark.parametrize("step", [0, WARPS - 1])
def test_a_warp_moves_a_peak_by_its_share_of_hertz(step: int) -> None:
    factor = 1 + 0.2 * (2 * step / (WARPS - 1) - 1)
    hertz = mel_centres(MELS)
    for band in (20, 40, 60):
        peak = np.exp(-0.5 * ((np.arange(MELS) - band) / 2) ** 2)[None].astype(np.float32)
        found = int((peak @ warp_matrix(step, 0.2)).argmax())
        assert hertz[found] * factor == pytest.approx(hertz[band], rel=0.04)


def test_a_warp_keeps_the_level_of_a_flat_spectrum() -> None:
    flat = np.full((1, MELS), -5, np.float32)
    for step in range(WARPS):
        np.testing.assert_allclose(flat @ warp_matrix(step, 0.1), flat, atol=1e-5)


def test_noise_adds_power_everywhere() -> None:
    config = dataclasses.replace(PLAIN, noise=1.0)
    for seed in range(10):
        found = changed(frames(), None, config, random(seed))
        assert (found >= frames() - 1e-5).all()
        assert found.mean() > frames().mean()


def test_noise_has_the_level_asked_for() -> None:
    for level in (-8.0, 0.0):
        means = [coloured_noise(200, level, random(seed)).mean() for seed in range(30)]
        assert np.mean(means) == pytest.approx(level, abs=0.7)


@pytest.mark.parametrize("level", [-8, -3, 4])
def test_babble_is_softer_than_the_speech_however_loud_it_was_recorded(level: float) -> None:
    config, other = dataclasses.replace(PLAIN, babble=1.0), frames(7) * 0 + level
    found = changed(np.full((40, MELS), -3, np.float32), other, config, random())
    assert found.dtype == np.float32
    assert (found > -3).all()
    assert (found < -3 + np.log(1.2)).all()


def test_gain_moves_all_frames_alike_down_to_the_floor() -> None:
    config = dataclasses.replace(PLAIN, gain=3.0)
    high = np.full((5, MELS), 2, np.float32)
    found = [changed(high, None, config, random(seed)) - high for seed in range(40)]
    shifts = [float(one[0, 0]) for one in found]
    assert all((one == one[0, 0]).all() for one in found)
    assert -3 <= min(shifts) < -2
    assert 0.5 < max(shifts) <= 1
    low = np.full((5, MELS), FLOOR, np.float32)
    assert min(changed(low, None, config, random(k)).min() for k in range(20)) >= FLOOR - 1e-5


def test_masks_blank_no_more_than_they_may() -> None:
    config = dataclasses.replace(PLAIN, time_masks=2, time_mask=0.1, band_masks=1, band_mask=10)
    given = frames(100)
    for seed in range(20):
        blank = masked(given, config, random(seed)) != given
        bands = blank.all(0)
        assert bands.sum() <= 10
        assert blank[:, ~bands].any(1).sum() <= 20


def test_silence_is_floor_noise_tones_or_knocks() -> None:
    found = [silence(300, random(seed)) for seed in range(60)]
    assert all(len(one) == 300 for one in found)
    assert all(np.isfinite(one).all() and one.min() >= FLOOR - 1e-5 for one in found)
    assert any((one == np.float32(FLOOR)).all() for one in found)
    assert any((one > FLOOR + 1).any() for one in found)
    notes = music(200, random(1))
    assert notes.dtype == np.float32
    assert np.median((notes > -4).sum(1)) < MELS / 2  # tones, not noise
    assert 0 < (clicks(200, random(1)).max(1) > -3).sum() < 60


def test_a_room_makes_what_was_said_ring_on() -> None:
    given = np.full((60, MELS), FLOOR, np.float32)
    given[10] = 0.0
    found = reverberated(given, 0.5, 0.0)
    assert found[10] == pytest.approx(0.0, abs=1e-3)
    fall = np.diff(found[11:20, 0])
    np.testing.assert_allclose(fall, np.log(10**-6) * 0.01 / 0.5, rtol=0.03)  # 60 dB in 0.5 s
    np.testing.assert_allclose(found[:10], given[:10], atol=0.7)  # the floor rings, too


def test_a_narrow_channel_passes_no_high_frequency() -> None:
    given = np.zeros((20, MELS), np.float32)
    found = transmitted(given, 3400.0, 300.0, random())
    centres = mel_centres(MELS)
    assert (found[:, (centres > 3400) | (centres < 300)] == FLOOR).all()
    inside = (centres > 300) & (centres < 3400)
    assert np.abs(found[:, inside]).max() < 0.5


def test_a_lead_stands_before_an_utterance_and_changes_nothing_of_it() -> None:
    given = frames(30)
    found = [with_lead(given, 40, random(seed)) for seed in range(60)]
    for one in found:
        assert one.shape == (70, MELS)
        assert one.dtype == np.float32
        np.testing.assert_array_equal(one[40:], given)
    assert min(one[:40].max() for one in found) < -8  # near silence
    loud = [one for one in found if np.median(one[30:40]) > 2]  # clipping, up to the first word
    assert len(loud) > 2


def test_a_hum_is_loud_in_the_lowest_bands_alone() -> None:
    for seed in range(20):
        found = hum(random(seed))[0]
        assert found[0] >= 0
        assert (np.diff(found) < 0).all()
        assert found[20:].max() < found[0] - 10


@pytest.mark.parametrize("bands", [16, 40])
def test_frames_may_have_other_bands(bands: int) -> None:
    given = random().normal(-5, 2, (50, bands)).astype(np.float32)
    for seed in range(5):
        found = changed(given, given[:30], ALL, random(seed))
        assert found.shape[1:] == (bands,)
        assert np.isfinite(found).all()
        assert silence(60, random(seed), bands).shape == (60, bands)
    peaks = mel_bank(bands).argmax(0) * SAMPLE_RATE / FFT
    np.testing.assert_allclose(mel_centres(bands), peaks, atol=SAMPLE_RATE / FFT)
    np.testing.assert_allclose(warp_matrix(WARPS // 2, 0.1, bands), np.eye(bands), atol=1e-6)


def test_a_pause_is_made_of_an_utterance_s_quietest_quarter_of_a_second() -> None:
    frames = np.arange(100, dtype=np.float32)[:, None] + np.zeros((1, MELS), np.float32)
    frames[:40] += 500
    pause = pause_like(frames, 300, random(0))
    assert pause.shape == (300, MELS)
    assert set(pause[:, 0]) == set(range(40, 40 + QUIET))
    assert len(pause_like(frames[:3], 7, random(0))) == 7
    assert pause_like(frames, 0, random(0)).shape == (0, MELS)
