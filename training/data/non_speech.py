"""Log-mel frames without speech: silence, noise, clicks, music, hums, and pauses of a recording."""

import numpy as np
from numpy.typing import NDArray

from cortado.model.features.filterbank import mel_centres
from cortado.model.features.framing import MELS, POWER_FLOOR

Frames = NDArray[np.float32]  # (T, F) log-mel
FLOOR = float(np.log(POWER_FLOOR))
LOUD, CLIPPED = 2.0, 6.0  # log-mel power of loud noise, and of noise at full scale
QUIET = 25  # frames in a row, a quarter of a second, of which a pause is made


def silence(length: int, rng: np.random.Generator, bands: int = MELS) -> Frames:
    """Return (T, F) log-mel frames without speech, up to loud noise."""
    return non_speech(length, LOUD, rng, bands)


def pause_like(frames: Frames, length: int, rng: np.random.Generator) -> Frames:
    """Return `length` frames without speech, drawn from the quietest QUIET ones of an utterance."""
    width = min(QUIET, len(frames))
    levels = np.convolve(frames.mean(1), np.ones(width) / width, "valid")
    start = int(levels.argmin())
    return frames[start + rng.integers(0, width, length)]


def non_speech(length: int, loudest: float, rng: np.random.Generator, bands: int = MELS) -> Frames:
    """Return (T, F) log-mel frames of silence, noise, clicks, music or a hum."""
    frames = np.full((length, bands), FLOOR, np.float32)
    if rng.random() < 0.8:
        noise = coloured_noise(length, rng.uniform(-10.0, loudest), rng, bands)
        start, stop = np.sort(rng.integers(0, length + 1, 2))
        frames[start:stop] = np.logaddexp(frames[start:stop], noise[start:stop])
    kind = rng.random()
    if kind < 0.3:
        frames = np.logaddexp(frames, clicks(length, rng, bands))
    elif kind < 0.6:
        frames = np.logaddexp(frames, music(length, rng, bands))
    elif kind < 0.7:
        frames = np.logaddexp(frames, hum(rng, bands))
    return frames


def coloured_noise(
    length: int, level: float, rng: np.random.Generator, bands: int = MELS
) -> Frames:
    """Return (T, F) log-mel frames of stationary noise with a random smooth spectrum.

    The power of a band of noise in one frame is close to a gamma variable; its log-normal
    approximation is what is drawn here, narrower for the wider bands above.
    """
    slope = rng.uniform(-0.04, 0.03) * (MELS / bands) * np.arange(bands)
    bumps = np.interp(np.arange(bands), np.linspace(0, bands - 1, 8), rng.normal(0, 1, 8))
    spread = np.linspace(0.7, 0.25, bands)
    noise = level + slope + bumps + spread * rng.standard_normal((length, bands), np.float32)
    return noise.astype(np.float32)


def clicks(length: int, rng: np.random.Generator, bands: int = MELS) -> Frames:
    """Return (T, F) log-mel frames of short knocks, each of its own colour, and silence between."""
    frames = np.full((length, bands), FLOOR, np.float32)
    for at in rng.integers(0, length, int(rng.integers(1, 20))):
        # a window sees it in 2 or 3 frames
        knock = coloured_noise(3, rng.uniform(-6.0, 2.0), rng, bands)
        knock[1:] -= rng.uniform(0.0, 6.0)
        frames[at : at + 3] = np.logaddexp(frames[at : at + 3], knock[: length - at])
    return frames


def music(length: int, rng: np.random.Generator, bands: int = MELS) -> Frames:
    """Return (T, F) log-mel frames of notes: harmonics that fade, now one note, now a chord."""
    frames = np.full((length, bands), FLOOR, np.float32)
    hertz = mel_centres(bands)
    pause = rng.uniform(8, 80)  # frames between notes
    slope, fade = rng.uniform(0.2, 2.0), rng.uniform(0.01, 0.2)  # nats a harmonic, a frame
    steady, overtones = rng.random() < 0.5, int(rng.integers(1, 30))
    at = 0
    while at < length:
        for _ in range(int(rng.integers(1, 6))):
            pitch = 80 * 2 ** rng.uniform(0, 3.5)
            harmonics = np.arange(1, min(int(8000 / pitch), overtones) + 1)
            nearest = np.abs(hertz[None] - pitch * harmonics[:, None]).argmin(1)
            note = np.full(bands, FLOOR)
            levels = rng.uniform(-2.0, 4.0) - slope * np.log(harmonics) * 2
            np.maximum.at(note, nearest, levels)
            faded = note - fade * np.arange(length - at)[:, None]
            frames[at:] = np.logaddexp(frames[at:], np.maximum(faded, FLOOR).astype(np.float32))
        at += max(1, int(pause if steady else rng.exponential(pause)))
    return frames


def hum(rng: np.random.Generator, bands: int = MELS) -> Frames:
    """Return a (1, F) log-mel frame of a hum or a direct current: loud, in the lowest bands."""
    fall = rng.uniform(0.5, 8.0)  # nats a band
    frame = rng.uniform(0.0, 8.0) - fall * (MELS / bands) * np.arange(bands)
    return frame[None].astype(np.float32)
