"""Features normalised by statistics of all of a speaker's recordings, as in the papers for WSJ.

The statistics need whole recordings, so streams cannot have them. A recogniser trained on such
features transcribes recordings, `adapted` to their speaker each time (model/adaptation.py).
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cortado.model.arrays import Samples
from cortado.model.config import RecognizerConfig
from cortado.model.features.framing import HOP
from cortado.model.features.log_mel import Features

MIN_DEVIATION = 0.1  # nats; digital silence has 0, by which nothing can be divided


class Statistics(NamedTuple):
    """The mean and standard deviation of a speaker's log-mel frames, in nats."""

    mean: NDArray[np.float32]  # (F,)
    deviation: NDArray[np.float32]  # (F,), at least MIN_DEVIATION


class Sums:
    """Running sums over log-mel frames, for their statistics."""

    def __init__(self, bands: int) -> None:
        self.frames = 0
        self._first, self._second = np.zeros(bands), np.zeros(bands)  # of values, of squares

    def add(self, logmel: NDArray[np.floating]) -> None:
        """Add (T, F) frames."""
        exact = logmel.astype(np.float64)
        self.frames += len(exact)
        self._first += exact.sum(0)
        self._second += np.square(exact).sum(0)

    def statistics(self) -> Statistics:
        """Return the statistics of all frames; mean 0 if there were none."""
        count = max(self.frames, 1)
        mean = self._first / count
        variance = np.maximum(self._second / count - np.square(mean), MIN_DEVIATION**2)
        return Statistics(mean.astype(np.float32), np.sqrt(variance).astype(np.float32))


def check_streams(config: RecognizerConfig) -> None:
    """Check that a recogniser's features can be computed from a stream.

    Raises: ValueError where they need statistics of the speaker.
    """
    if config.features.by_speaker:
        raise ValueError(
            "expected features normalised causally ('running' or 'fixed') for streams, got "
            "'speaker', whose statistics need whole recordings: use `cortado transcribe` or "
            "`cortado evaluate` with such a model"
        )


@torch.inference_mode()
def statistics_of(features: Features, recordings: Iterable[Iterable[Samples]]) -> Statistics:
    """Return the statistics of a speaker's recordings at 16 kHz, in constant memory.

    Args:
        features: the recogniser's.
        recordings: each in pieces (n,) of any lengths.
    """
    sums = Sums(len(features.normalizer.mean))
    for pieces in recordings:
        waiting, state = torch.zeros(1, 0), features.logmel.initial_state(1)
        for piece in pieces:
            waiting = torch.cat([waiting, torch.from_numpy(piece).unsqueeze(0)], 1)
            whole = waiting.shape[1] // HOP * HOP
            if whole:
                frames, state = features.logmel.step(waiting[:, :whole], state)
                sums.add(frames[0].numpy())
                waiting = waiting[:, whole:]
    return sums.statistics()


def standardised(logmel: Tensor, statistics: Iterable[Statistics]) -> Tensor:
    """Return (B, T, F) log-mel frames standardised by the statistics of each row's speaker."""
    pairs = list(statistics)
    means = torch.from_numpy(np.stack([one.mean for one in pairs])).unsqueeze(1)
    deviations = torch.from_numpy(np.stack([one.deviation for one in pairs])).unsqueeze(1)
    return (logmel - means) / deviations
