"""Random changes of log-mel frames that keep the text: tempo, voice, level, noise, masks.

They act on the cached frames, where they cost little: a stretch of time is an interpolation of
frames, a shorter vocal tract a warp of the mel axis, and added noise an addition of powers.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from cortado.model.features.filterbank import mel_centres
from cortado.model.features.framing import MELS, POWER_FLOOR
from cortado.training.bounds import BelowOne, Count, Share, Weight
from cortado.training.data.non_speech import CLIPPED, FLOOR, Frames, coloured_noise, non_speech

WARPS = 21  # warp factors are rounded to a grid, so that their matrices are built once
OF_BANDS = ("warp", "noise", "telephone", "band_masks", "silence", "lead", "trail")


@dataclass(frozen=True)
class Augmentation:
    """Random changes of the log-mel frames; 0 is none of a kind."""

    untouched: Share = 0.0  # share of utterances whose times and mel bands stay as recorded
    tempo: BelowOne = 0.15  # relative time stretch
    warp: BelowOne = 0.1  # relative vocal-tract length
    gain: Weight = 3.0  # nats of power, around a little below the recording's own
    noise: Share = 0.4  # share of utterances with added noise
    babble: Share = 0.1  # share of utterances with another one, softer, under them
    reverberation: Share = 0.0  # share of utterances in a room
    telephone: Share = 0.0  # share of utterances through a narrow or coarse channel
    time_masks: Count = 2  # per utterance
    time_mask: Share = 0.06  # of its length, each at most
    band_masks: Count = 2
    band_mask: Count = 10  # mel bands, each at most
    silence: Share = 0.02  # share of utterances of noise or silence alone, with an empty text
    shift: Count = 0  # frames of 10 ms, at most, that an utterance's beginning lacks
    lead: Share = 0.0  # share of utterances right behind seconds of noise, music or silence
    trail: Share = 0.0  # share of utterances right before such seconds
    follow: Share = 0.0  # share of utterances behind another of the same speaker and a pause

    @property
    def of_bands(self) -> list[str]:
        """Names of its changes that need mel bands alone."""
        return [name for name in OF_BANDS if getattr(self, name)]


def for_one_utterance(config: Augmentation, rng: np.random.Generator) -> Augmentation:
    """Return the changes of an utterance: a share of `untouched` has none that interpolate.

    Interpolation smooths. A network that hears nothing else does not know a recording's own frames.
    """
    if config.untouched and rng.random() < config.untouched:
        return replace(config, tempo=0.0, warp=0.0)
    return config


def retimed(logmel: Frames, config: Augmentation, rng: np.random.Generator) -> Frames:
    """Return (T', F) log-mel frames at another tempo."""
    return stretched(logmel, 1 + rng.uniform(-config.tempo, config.tempo))


def augmented(
    logmel: Frames,
    other: Callable[[], Frames] | None,
    config: Augmentation,
    rng: np.random.Generator,
) -> Frames:
    """Return augmented (T, F) log-mel frames of the same length and timing.

    Args:
        logmel: (T, F), after `retimed`.
        other: loads an utterance to mix in as babble; None for none.
        config: which changes, and how strong.
        rng: random numbers.
    """
    frames, bands = logmel, logmel.shape[1]
    if config.warp:
        frames = frames @ warp_matrix(int(rng.integers(WARPS)), config.warp, bands)
    if other is not None and rng.random() < config.babble:
        babble = other()
        level = _level(frames) - _level(babble) - rng.uniform(2.0, 6.0)
        frames = np.logaddexp(frames, np.resize(babble, frames.shape) + level)
    if config.reverberation and rng.random() < config.reverberation:
        frames = reverberated(frames, rng.uniform(0.2, 0.8), rng.uniform(0.0, 2.5))
    if rng.random() < config.noise:
        level = _level(frames) - rng.uniform(1.0, 7.0)
        frames = np.logaddexp(frames, coloured_noise(len(frames), level, rng, bands))
    if config.gain:
        frames = np.maximum(frames + rng.uniform(-1.5, 0.5) * config.gain / 1.5, FLOOR)
    if config.telephone and rng.random() < config.telephone:
        frames = transmitted(frames, rng.uniform(3400, 7000), rng.uniform(0.0, 300.0), rng)
    return masked(frames, config, rng)


def _level(frames: Frames) -> float:
    """Return the log-mel power of what is spoken in frames, which pauses do not lower."""
    return float(np.percentile(frames, 75))


def stretched(logmel: Frames, factor: float) -> Frames:
    """Return the frames played `factor` times as fast, by linear interpolation."""
    length = max(1, int(len(logmel) / factor))
    at = np.minimum(np.arange(length) * factor, len(logmel) - 1)
    low = at.astype(np.int64)
    high = np.minimum(low + 1, len(logmel) - 1)
    weight = (at - low).astype(np.float32)[:, None]
    return logmel[low] * (1 - weight) + logmel[high] * weight


@lru_cache(maxsize=WARPS)
def warp_matrix(step: int, largest: float, bands: int = MELS) -> Frames:
    """Return the (F, F) interpolation that scales frequencies by 1 - largest .. 1 + largest.

    The mel axis is linear below 1 kHz and logarithmic above, so scaling is done in hertz. `step` is
    the number of the factor, of WARPS.
    """
    hertz, columns = mel_centres(bands), np.arange(bands)
    factor = 1 + largest * (2 * step / (WARPS - 1) - 1)
    source = np.interp(hertz * factor, hertz, columns)
    low = np.minimum(source.astype(np.int64), bands - 2)
    matrix = np.zeros((bands, bands), np.float32)
    matrix[low, columns] = 1 - (source - low)
    matrix[low + 1, columns] += source - low
    return matrix


def reverberated(frames: Frames, seconds: float, below: float) -> Frames:
    """Return the frames with reverberation: the power of past frames decays exponentially.

    Args:
        frames: (T, F) log-mel.
        seconds: the time in which the reverberation falls by 60 dB.
        below: nats by which the power of all reverberation lies below that of the direct sound.
    """
    decay = 10 ** (-6 * 0.01 / seconds)  # of power, from one frame to the next
    power = np.exp(frames.astype(np.float64))
    late = np.zeros_like(power)
    for t in range(1, len(power)):
        late[t] = decay * late[t - 1] + (1 - decay) * power[t - 1]
    return np.log(np.maximum(power + np.exp(-below) * late, POWER_FLOOR)).astype(np.float32)


def transmitted(frames: Frames, highest: float, lowest: float, rng: np.random.Generator) -> Frames:
    """Return the frames through a narrow channel with quantisation noise.

    Args:
        frames: (T, F) log-mel.
        highest: hertz above which nothing passes.
        lowest: hertz below which nothing passes.
        rng: of the quantisation noise, 20 to 45 dB below each frame's loudest band.
    """
    hertz = mel_centres(frames.shape[1])
    sent = frames.copy()
    loudest = sent.max(1, keepdims=True)
    rough = loudest - rng.uniform(4.6, 10.4) + rng.normal(0, 0.7, sent.shape)
    sent = np.logaddexp(sent, rough.astype(np.float32))
    sent[:, (hertz > highest) | (hertz < lowest)] = FLOOR
    return np.maximum(sent, FLOOR)


def with_lead(frames: Frames, lead: int, rng: np.random.Generator) -> Frames:
    """Return the frames after `lead` frames without speech, up to the loudest noise.

    The lead breaks off in the middle of a sound, and has moved the features' running mean. Below 0,
    so many of the frames are left out.
    """
    if lead <= 0:
        return frames[-lead:]
    bands = frames.shape[1]
    return np.concatenate([non_speech(2 * lead, CLIPPED, rng, bands)[:lead], frames])


def with_trail(frames: Frames, trail: int, rng: np.random.Generator) -> Frames:
    """Return the frames before `trail` frames without speech, up to the loudest noise."""
    if not trail:
        return frames
    return np.concatenate([frames, non_speech(trail, CLIPPED, rng, frames.shape[1])])


def masked(frames: Frames, config: Augmentation, rng: np.random.Generator) -> Frames:
    """Return frames with stretches of time and bands blanked (SpecAugment, Park et al. 2019)."""
    frames = frames.copy()
    mean = frames.mean()
    for _ in range(config.time_masks):
        width = int(rng.uniform(0, config.time_mask) * len(frames))
        start = int(rng.integers(0, len(frames) - width + 1))
        frames[start : start + width] = mean
    for _ in range(config.band_masks):
        width = int(rng.integers(0, config.band_mask + 1))
        start = int(rng.integers(0, frames.shape[1] - width + 1))
        frames[:, start : start + width] = mean
    return frames
