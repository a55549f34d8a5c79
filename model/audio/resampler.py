"""Samples of any rate to those of another, in a stream."""

from numbers import Real
from typing import Any

import numpy as np
import soxr
from numpy.typing import NDArray

from cortado.model.arrays import Samples
from cortado.model.features.framing import SAMPLE_RATE

MIN_RATE = 8_000  # Hz; a telephone's, below it there is too little speech left
MAX_RATE = 192_000  # Hz
NOTHING = np.zeros(0, np.float32)


class Resampler:
    """One stream's change of sample rate, by soxr HQ: any chunking gives the same samples.

    The output lags behind the input by 37 ms at 48 kHz, 40 ms at 44.1 kHz and up to 115 ms at
    8 kHz (the filter and its blocks); at equal rates by nothing, and samples pass untouched.

    Raises: ValueError for rates outside 8000..192000 Hz.
    """

    def __init__(self, source_rate: int, target_rate: int = SAMPLE_RATE) -> None:
        for rate in (source_rate, target_rate):
            if not (isinstance(rate, Real) and MIN_RATE <= rate <= MAX_RATE):
                raise ValueError(
                    f"expected a sample rate of {MIN_RATE} to {MAX_RATE} Hz, got {rate!r}"
                )
        self._stream: soxr.ResampleStream | None = None
        if source_rate != target_rate:
            self._stream = soxr.ResampleStream(
                source_rate, target_rate, 1, dtype="float32", quality="HQ"
            )
        self._finished = False

    def push(self, samples: NDArray[Any]) -> Samples:
        """Return the (n,) samples at the target rate that are ready after (m,) more at the source.

        Raises: ValueError for anything but one dimension, or after `finish`.
        """
        if samples.ndim != 1:
            raise ValueError(f"expected samples of shape (n,), got {samples.shape}")
        if self._finished:
            raise ValueError("expected no samples after finish, got more")
        samples = samples.astype(np.float32, copy=False)
        return samples if self._stream is None else self._stream.resample_chunk(samples)

    def finish(self) -> Samples:
        """Return the (n,) samples still inside; nothing may be pushed afterwards."""
        last, self._finished = self._finished, True
        if self._stream is None or last:
            return NOTHING
        return self._stream.resample_chunk(NOTHING, last=True)
