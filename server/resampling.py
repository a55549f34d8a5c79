"""A stream's change of sample rate, which can go on in another process."""

from math import gcd

import numpy as np

from cortado.model.arrays import Samples
from cortado.model.audio.resampler import Resampler
from cortado.model.features.framing import SAMPLE_RATE

MEMORY_SECONDS = 0.3  # of input, more than the filter's length and its blocks
NOTHING = np.zeros(0, np.float32)


class StreamResampler:
    """A `Resampler` that remembers the input which the next samples still depend on.

    Another one that is given this input goes on where this one stopped, within rounding: the filter
    is of finite length, and the input begins on a sample of the output.
    """

    def __init__(self, rate: int, recent: Samples = NOTHING, made: int = 0) -> None:
        """Begin, or go on after the (N,) `recent` samples, of which `made` at 16 kHz were given."""
        self._resampler = Resampler(rate)
        self._grid = rate // gcd(rate, SAMPLE_RATE)  # samples between two that the rates share
        self._memory = int(rate * MEMORY_SECONDS)
        self._rate, self._is_plain = rate, rate == SAMPLE_RATE
        self._recent = NOTHING
        self._made = 0  # samples at 16 kHz since the first of `_recent`
        self._skip = 0  # samples that were given before
        self._ahead = NOTHING  # samples that came of `recent` beyond those given
        if len(recent):
            self._skip = made
            self._ahead = self.push(recent)

    def push(self, samples: Samples) -> Samples:
        """Return the (n,) samples at 16 kHz that are ready after (m,) more."""
        return samples if self._is_plain else self._given(self._resampler.push(samples), samples)

    def finish(self) -> Samples:
        """Return the (n,) samples still inside; nothing may be pushed afterwards."""
        return self._given(self._resampler.finish(), NOTHING)

    def state(self) -> tuple[Samples, int]:
        """Return what another one goes on from: `recent` and `made`."""
        return self._recent, self._made + self._skip

    def _given(self, made: Samples, samples: Samples) -> Samples:
        """Return what of `made` was not given before; remember the input `samples`."""
        skipped = min(self._skip, len(made))
        self._skip -= skipped
        self._made += len(made)
        self._recent = np.concatenate([self._recent, samples])
        surplus = (len(self._recent) - self._memory) // self._grid * self._grid
        if surplus >= self._memory:  # seldom, for it copies
            self._recent = self._recent[surplus:].copy()
            self._made -= surplus * SAMPLE_RATE // self._rate
        ready, self._ahead = np.concatenate([self._ahead, made[skipped:]]), NOTHING
        return ready
