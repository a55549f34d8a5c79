"""Noise with the spectrum and the rhythm of speech, for a benchmark without recordings."""

import numpy as np

from cortado.model.features.framing import SAMPLE_RATE
from cortado.model.streaming.interface import Samples

SYLLABLES = 4.0  # a second
CORNER = 600.0  # Hz: above it, speech falls off


def babble(seconds: float, seed: int = 0) -> Samples:
    """Return (N,) samples of noise that swells and falls as syllables do."""
    random = np.random.default_rng(seed)
    count = round(seconds * SAMPLE_RATE)
    spectrum = np.fft.rfft(random.normal(size=count))
    spectrum /= 1 + np.fft.rfftfreq(count, 1 / SAMPLE_RATE) / CORNER
    noise = np.fft.irfft(spectrum, count)
    swell = np.abs(np.sin(np.pi * SYLLABLES * np.arange(count) / SAMPLE_RATE)) ** 2
    return (0.1 * noise / noise.std() * swell).astype(np.float32)
