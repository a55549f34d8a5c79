"""Random acoustics for synthetic speech: other speakers, rooms, noises, microphones, levels."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import soxr

from cortado.model.arrays import Samples
from cortado.model.features.framing import SAMPLE_RATE

TRIM_FLOOR = 0.003  # of the peak (-50 dB): quieter ends are the engine's silence, not speech
TRIM_MARGIN = SAMPLE_RATE * 3 // 100  # 30 ms kept around the speech, for soft consonants
BABBLE_SPEAKERS = (3, 6)


@dataclass(frozen=True)
class Effects:
    """What happens to one utterance after the engine has spoken it; None means not at all."""

    shift: float  # playback speed: moves formants, pitch and tempo together
    lead: float  # s of silence before the speech
    tail: float  # s of silence after the speech
    reverb_time: float | None  # s in which the room's answer falls by 60 dB
    reverb_level: float  # dB of the room's answer relative to the direct sound
    snr: float | None  # dB, speech over noise
    noise_slope: float  # the noise's power falls as 1 / f**slope
    babble: bool  # other voices in place of the coloured noise
    low_pass: float | None  # Hz
    tilt: float  # dB per octave about 1 kHz, a crude microphone
    peak: float  # dB relative to full scale


def draw_effects(rng: np.random.Generator) -> Effects:
    """Return random effects; takes the same number of draws from `rng` whatever they are."""
    has_reverb, has_noise, is_babble, has_low_pass, has_tilt = rng.random(5)
    return Effects(
        shift=round(float(rng.uniform(0.88, 1.14)), 2),
        lead=float(rng.uniform(0.05, 0.6)),
        tail=float(rng.uniform(0.05, 0.6)),
        reverb_time=_maybe(has_reverb < 1 / 3, float(rng.uniform(0.1, 0.6))),
        reverb_level=float(rng.uniform(-18.0, -3.0)),
        snr=_maybe(has_noise < 0.5, float(rng.uniform(8.0, 40.0))),
        noise_slope=float(rng.uniform(0.0, 2.0)),
        babble=bool(is_babble < 1 / 4),
        low_pass=_maybe(has_low_pass < 0.1, float(rng.uniform(2800.0, 6000.0))),
        tilt=float(rng.uniform(-3.0, 3.0)) if has_tilt < 0.5 else 0.0,
        peak=float(rng.uniform(-25.0, -1.0)),
    )


def apply_effects(
    speech: Samples,
    sample_rate: int,
    effects: Effects,
    babble: Sequence[Samples],
    rng: np.random.Generator,
) -> Samples:
    """Return (N,) samples at 16 kHz of `speech` (M,) at `sample_rate` Hz under `effects`.

    `babble` holds clean voices at 16 kHz to mix; with none, babble falls back to coloured noise.
    """
    speech = trim(speech)
    speech = soxr.resample(speech, sample_rate * effects.shift, SAMPLE_RATE).astype(np.float32)
    power = float(np.mean(np.square(speech)))
    samples = np.concatenate([_silence(effects.lead), speech, _silence(effects.tail)])
    if effects.reverb_time is not None:
        response = room_response(effects.reverb_time, effects.reverb_level, rng)
        samples = _reverberated(samples, response)
    if effects.snr is not None:
        voices = babble if effects.babble else ()
        noise = (
            mix_babble(voices, len(samples), rng)
            if voices
            else coloured_noise(len(samples), effects.noise_slope, rng)
        )
        samples = samples + noise * np.sqrt(power * 10 ** (-effects.snr / 10))
    samples = _colour(samples, effects.low_pass, effects.tilt)
    loudest = float(np.max(np.abs(samples)))
    return (samples * (10 ** (effects.peak / 20) / max(loudest, 1e-9))).astype(np.float32)


def trim(speech: Samples) -> Samples:
    """Return `speech` without the silence at its ends, all of it if it is silent throughout."""
    loud = np.flatnonzero(np.abs(speech) > TRIM_FLOOR * np.max(np.abs(speech), initial=0.0))
    if len(loud) == 0:
        return speech
    return speech[max(0, loud[0] - TRIM_MARGIN) : loud[-1] + TRIM_MARGIN]


def coloured_noise(length: int, slope: float, rng: np.random.Generator) -> Samples:
    """Return (length,) noise of power 1 whose spectrum falls as 1 / f**slope above 50 Hz."""
    spectrum = np.fft.rfft(rng.standard_normal(length))
    frequency = np.fft.rfftfreq(length, 1 / SAMPLE_RATE)
    shaped = np.fft.irfft(spectrum * np.maximum(frequency, 50.0) ** (-slope / 2), length)
    return _unit_power(shaped)


def mix_babble(voices: Sequence[Samples], length: int, rng: np.random.Generator) -> Samples:
    """Return (length,) of several of the `voices` talking at once, power 1."""
    mixture = np.zeros(length)
    for _ in range(int(rng.integers(BABBLE_SPEAKERS[0], BABBLE_SPEAKERS[1] + 1))):
        voice = voices[int(rng.integers(len(voices)))]
        offset = int(rng.integers(len(voice)))
        mixture += np.resize(np.roll(voice, offset), length) * rng.uniform(0.4, 1.0)
    return _unit_power(mixture)


def room_response(
    seconds: float, level: float, rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    """Return an impulse response: 1, then noise that falls by 60 dB in `seconds`.

    The noise holds `level` dB of energy relative to the direct sound, after up to 10 ms of gap.
    """
    time = np.arange(1, int(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    echoes = rng.standard_normal(len(time)) * 10 ** (-3 * time / seconds)
    echoes[: int(rng.integers(1, SAMPLE_RATE // 100))] = 0.0
    echoes *= np.sqrt(10 ** (level / 10) / np.sum(np.square(echoes)))
    return np.concatenate([[1.0], echoes])


def _maybe(condition: bool, value: float) -> float | None:
    return value if condition else None


def _silence(seconds: float) -> Samples:
    return np.zeros(round(seconds * SAMPLE_RATE), dtype=np.float32)


def _unit_power(samples: npt.NDArray[np.float64]) -> Samples:
    return (samples / max(np.sqrt(np.mean(np.square(samples))), 1e-9)).astype(np.float32)


def _fast_length(length: int) -> int:
    """Return a length of at least `length` that the FFT likes: 2**a or 3 * 2**a."""
    power = 1 << (length - 1).bit_length()
    return power * 3 // 4 if power * 3 // 4 >= length else power


def _reverberated(samples: Samples, response: npt.NDArray[np.float64]) -> Samples:
    """Return (N,) samples in a room, whose answer is cut off with them."""
    size = _fast_length(len(samples) + len(response) - 1)
    product = np.fft.rfft(samples, size) * np.fft.rfft(response, size)
    return np.fft.irfft(product, size)[: len(samples)].astype(np.float32)


def _colour(samples: Samples, low_pass: float | None, tilt: float) -> Samples:
    """Filter by a tilted spectrum and a fourth-order Butterworth magnitude, zero phase."""
    if low_pass is None and tilt == 0.0:
        return samples
    size = _fast_length(len(samples))
    frequency = np.fft.rfftfreq(size, 1 / SAMPLE_RATE)
    octaves = np.log2(np.clip(frequency, 62.5, None) / 1000.0)
    gain = 10 ** (tilt * octaves / 20)
    if low_pass is not None:
        gain /= np.sqrt(1 + (frequency / low_pass) ** 8)
    return np.fft.irfft(np.fft.rfft(samples, size) * gain, size)[: len(samples)].astype(np.float32)
