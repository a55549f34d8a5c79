"""The sound of a day: blocks of recorded speech, and stretches without speech.

Everything is made from one seed, as it is needed.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cortado.model.arrays import Samples
from cortado.model.features.framing import SAMPLE_RATE
from cortado.training.data.manifest import read
from cortado.training.data.recordings import samples_of

STRETCH = (5.0, 30.0)  # seconds without speech
BLOCK = 6  # recordings between two stretches
PAUSE = (0.3, 2.0)  # seconds between recordings of a block


class Spoken(NamedTuple):
    """A recording and its text."""

    samples: Samples  # (N,) at 16 kHz
    text: str


def recordings(manifest: Path) -> list[Spoken]:
    """Return the recordings of a manifest.

    Raises:
        OSError: it, or a recording, is not there.
        ValueError: it is no manifest.
        AudioError: a recording is broken.
    """
    return [Spoken(samples_of(one), one.text) for one in read(manifest)]


class Sound(NamedTuple):
    """A part of the day."""

    samples: Samples
    kind: str  # "speech", "pause" or one of STRETCHES
    recording: int = -1  # which, if it is speech


def _silence(random: np.random.Generator, n: int) -> NDArray[np.float64]:
    return 1e-4 * random.standard_normal(n)


def _noise(random: np.random.Generator, n: int) -> NDArray[np.float64]:
    return 10 ** random.uniform(-3, -1) * random.standard_normal(n)


def _music(random: np.random.Generator, n: int) -> NDArray[np.float64]:
    """Chords of four notes with overtones, struck twice a second."""
    beat, time = SAMPLE_RATE // 2, np.arange(SAMPLE_RATE // 2) / SAMPLE_RATE
    chords = []
    for _ in range(-(-n // beat)):
        pitches = 110 * 2 ** (random.integers(0, 36, 4) / 12)
        tones = sum(np.sin(2 * np.pi * k * p * time) / k for p in pitches for k in (1, 2, 3))
        chords.append(tones * np.exp(-4 * time))
    return 0.08 * np.concatenate(chords)[:n]


def _clipping(random: np.random.Generator, n: int) -> NDArray[np.float64]:
    return (3 * random.standard_normal(n)).clip(-1, 1)


def _direct_current(random: np.random.Generator, n: int) -> NDArray[np.float64]:
    return random.uniform(-0.9, 0.9) + 1e-4 * random.standard_normal(n)


def _zero(random: np.random.Generator, n: int) -> NDArray[np.float64]:
    return np.zeros(n)


STRETCHES: dict[str, Callable[[np.random.Generator, int], NDArray[np.float64]]] = {
    "silence": _silence,
    "noise": _noise,
    "music": _music,
    "clipping": _clipping,
    "direct current": _direct_current,
    "digital zero": _zero,
}


def day(
    speech: Sequence[Spoken], seed: int = 0, stretch: tuple[float, float] = STRETCH
) -> Iterator[Sound]:
    """Yield sounds for ever: blocks of recordings, and between them stretches of each kind in turn.

    A round is all recordings, each once, in a random order. So each recording follows stretches of
    every kind and other speech.
    """
    random = np.random.default_rng(seed)
    order = _rounds(random, len(speech))

    def lasting(seconds: tuple[float, float]) -> int:
        return round(random.uniform(*seconds) * SAMPLE_RATE)

    for kind in cycle(STRETCHES):
        for _ in range(BLOCK):
            recording = next(order)
            yield Sound(speech[recording].samples, "speech", recording)
            yield Sound(_silence(random, lasting(PAUSE)).astype(np.float32), "pause")
        made = STRETCHES[kind](random, lasting(stretch))
        yield Sound(made.astype(np.float32), kind)


def _rounds(random: np.random.Generator, count: int) -> Iterator[int]:
    while True:
        yield from random.permutation(count).tolist()
