from dataclasses import replace

import numpy as np
import pytest

from cortado.model.features.framing import SAMPLE_RATE
from cortado.training.synthesis.effects import (
    Effects,
    apply_effects,
    coloured_noise,
    draw_effects,
    mix_babble,
    room_response,
    trim,
)

PLAIN = Effects(
    shift=1.0,
    lead=0.0,
    tail=0.0,
    reverb_time=None,
    reverb_level=0.0,
    snr=None,
    noise_slope=1.0,
    babble=False,
    low_pass=None,
    tilt=0.0,
    peak=-6.0,
)


def tone(frequency: float, seconds: float = 1.0, rate: int = SAMPLE_RATE) -> np.ndarray:
    time = np.arange(int(seconds * rate)) / rate
    return np.sin(2 * np.pi * frequency * time).astype(np.float32)


def applied(speech: np.ndarray, effects: Effects, rate: int = SAMPLE_RATE) -> np.ndarray:
    return apply_effects(speech, rate, effects, [], np.random.default_rng(0))


def strongest(samples: np.ndarray) -> float:
    """Return the frequency in Hz that holds the most energy."""
    return float(np.argmax(np.abs(np.fft.rfft(samples))) * SAMPLE_RATE / len(samples))


def level(samples: np.ndarray) -> float:
    return float(10 * np.log10(np.mean(np.square(samples))))


def test_a_shift_raises_the_pitch_and_shortens_the_speech_alike() -> None:
    shifted = applied(tone(440.0, rate=22050), replace(PLAIN, shift=1.1), rate=22050)
    assert len(shifted) == pytest.approx(SAMPLE_RATE / 1.1, abs=2)
    assert strongest(shifted) == pytest.approx(484.0, abs=2.0)


def test_the_peak_is_the_one_asked_for() -> None:
    assert np.max(np.abs(applied(tone(440.0), PLAIN))) == pytest.approx(10 ** (-6 / 20), rel=1e-5)


def test_silence_is_added_at_both_ends_and_the_engines_own_is_removed() -> None:
    speech = np.concatenate([np.zeros(8000), tone(440.0), np.zeros(9000)]).astype(np.float32)
    assert len(trim(speech)) == pytest.approx(SAMPLE_RATE, abs=1000)
    padded = applied(speech, replace(PLAIN, lead=0.5, tail=0.25))
    assert len(padded) == len(trim(speech)) + 12000
    assert np.max(np.abs(padded[:8000])) < 1e-6
    assert np.max(np.abs(padded[-4000:])) < 1e-6


def test_silence_throughout_stays_what_it_is() -> None:
    assert np.array_equal(trim(np.zeros(100, np.float32)), np.zeros(100))


def test_the_noise_lies_as_far_below_the_speech_as_asked() -> None:
    noisy = applied(tone(440.0), replace(PLAIN, lead=0.5, snr=12.0))
    speech, noise = noisy[8000 + 160 :], noisy[:8000]
    assert level(speech) - level(noise) == pytest.approx(12.0, abs=1.0)


def test_coloured_noise_falls_with_frequency_as_its_slope_says() -> None:
    noise = coloured_noise(1 << 18, 2.0, np.random.default_rng(0))
    power = np.square(np.abs(np.fft.rfft(noise)))
    hertz = len(power) / (SAMPLE_RATE / 2)
    low, high = (np.mean(power[int(f * hertz) : int(f * 1.1 * hertz)]) for f in (500.0, 2000.0))
    assert 10 * np.log10(low / high) == pytest.approx(12.0, abs=1.0)
    assert level(noise) == pytest.approx(0.0, abs=0.01)


def test_babble_of_short_voices_fills_any_length_at_power_one() -> None:
    crowd = mix_babble([tone(200.0, 0.3), tone(300.0, 0.2)], 40000, np.random.default_rng(0))
    assert crowd.shape == (40000,)
    assert level(crowd) == pytest.approx(0.0, abs=0.01)


def test_a_room_answers_after_the_direct_sound_with_the_energy_asked_for() -> None:
    response = room_response(0.4, -6.0, np.random.default_rng(0))
    assert response[0] == 1.0
    assert 10 * np.log10(np.sum(np.square(response[1:]))) == pytest.approx(-6.0, abs=1e-6)
    early, late = response[160:1600], response[-1600:]
    assert level(early) - level(late) == pytest.approx(60 * 0.3 / 0.4, abs=3.0)


def test_reverberation_rings_into_the_silence_after_the_speech() -> None:
    rung = applied(tone(440.0), replace(PLAIN, tail=0.3, reverb_time=0.5, reverb_level=-6.0))
    assert len(rung) == len(applied(tone(440.0), replace(PLAIN, tail=0.3)))
    assert level(rung[-4000:-2000]) > -60.0


def test_a_low_pass_takes_the_high_and_leaves_the_low() -> None:
    both = tone(500.0) + tone(7000.0)
    spectrum = np.abs(np.fft.rfft(applied(both, replace(PLAIN, low_pass=3000.0))))
    high, low = spectrum[6900:7100].max(), spectrum[400:600].max()
    assert 20 * np.log10(high / low) < -25.0


def test_a_tilt_is_in_decibels_per_octave() -> None:
    both = tone(500.0) + tone(2000.0)
    spectrum = np.abs(np.fft.rfft(applied(both, replace(PLAIN, tilt=3.0))))
    assert 20 * np.log10(spectrum[2000] / spectrum[500]) == pytest.approx(6.0, abs=0.5)


def test_draws_lie_in_their_ranges_and_each_effect_has_its_share() -> None:
    rng = np.random.default_rng(0)
    drawn = [draw_effects(rng) for _ in range(2000)]
    assert all(0.88 <= one.shift <= 1.14 and -25 <= one.peak <= -1 for one in drawn)
    assert all(one.snr is None or 8 <= one.snr <= 40 for one in drawn)
    assert np.mean([one.snr is not None for one in drawn]) == pytest.approx(0.5, abs=0.05)
    assert np.mean([one.reverb_time is not None for one in drawn]) == pytest.approx(1 / 3, abs=0.05)
    assert np.mean([one.low_pass is not None for one in drawn]) == pytest.approx(0.1, abs=0.03)
