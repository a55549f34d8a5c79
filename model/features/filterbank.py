"""The constants of the features: the window, the mel filters, and the taps of the deltas."""

import numpy as np
from numpy.typing import NDArray

from cortado.model.features.framing import DELTA_LOOKAHEAD, DELTA_WINDOW, FFT, SAMPLE_RATE, WINDOW

LOWEST = 20.0  # Hz, where the first filter begins; the last ends at half the sample rate
LINEAR = 200 / 3  # Hz a mel below KNEE (Slaney's scale, Auditory Toolbox 1998)
KNEE = 1000.0  # Hz
LOGARITHMIC = np.log(6.4) / 27  # of the frequency's logarithm, a mel above KNEE


def window() -> NDArray[np.float32]:
    """Return the (WINDOW,) periodic Hann window."""
    phase = 2 * np.pi * np.arange(WINDOW) / WINDOW
    return (0.5 - 0.5 * np.cos(phase)).astype(np.float32)


def mel_bank(bands: int) -> NDArray[np.float32]:
    """Return (FFT / 2 + 1, F) triangles of height 1, evenly apart on Slaney's mel scale."""
    edges = _edges(bands)
    bins = np.linspace(0, SAMPLE_RATE / 2, FFT // 2 + 1)[:, None]
    rise = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    fall = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    return np.minimum(rise, fall).clip(0).astype(np.float32)


def mel_centres(bands: int) -> NDArray[np.float64]:
    """Return the (F,) frequencies in hertz at which the triangles are highest."""
    return _edges(bands)[1:-1]


def _edges(bands: int) -> NDArray[np.float64]:
    """Return the (F + 2,) frequencies where triangles begin, are highest and end."""
    first, last = _mels(np.array([LOWEST, SAMPLE_RATE / 2])).tolist()
    return _hertz(np.linspace(first, last, bands + 2))


def _mels(hertz: NDArray[np.float64]) -> NDArray[np.float64]:
    above = KNEE / LINEAR + np.log(np.maximum(hertz, KNEE) / KNEE) / LOGARITHMIC
    return np.where(hertz < KNEE, hertz / LINEAR, above)


def _hertz(mels: NDArray[np.float64]) -> NDArray[np.float64]:
    knee = KNEE / LINEAR
    above = KNEE * np.exp(LOGARITHMIC * (np.maximum(mels, knee) - knee))
    return np.where(mels < knee, mels * LINEAR, above)


def delta_taps() -> NDArray[np.float32]:
    """Return (9, 3) filters that give a frame, its delta and its delta-delta from 9 frames.

    Source: HTK's regression formula, d_t = sum_n n (x_{t+n} - x_{t-n}) / (2 sum_n n^2).
    """
    offsets = np.arange(-DELTA_WINDOW, DELTA_WINDOW + 1.0)
    delta = offsets / (offsets**2).sum()
    width = 2 * DELTA_LOOKAHEAD + 1
    taps = np.zeros((width, 3))
    taps[DELTA_LOOKAHEAD, 0] = 1
    taps[DELTA_WINDOW : width - DELTA_WINDOW, 1] = delta
    for start, weight in enumerate(delta):
        taps[start : start + len(delta), 2] += weight * delta
    return taps.astype(np.float32)
