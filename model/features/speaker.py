"""Features normalised by statistics over all that a speaker says, as in the papers for WSJ.

They are known only when the speaker has finished, so no stream can have them: a recogniser that
was trained on them hears recordings, each time `adapted` to their speaker (model/adaptation.py).
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cortado.model.config import RecognizerConfig
from cortado.model.features.framing import HOP
from cortado.model.features.log_mel import Features

LEAST_DEVIATION = 0.1  # nats; that of digital silence is 0, and is not to be divided by

Samples = NDArray[np.float32]


class Statistics(NamedTuple):
    """What a speaker's log-mel frames are standardised by."""

    mean: NDArray[np.float32]  # (F,)
    deviation: NDArray[np.float32]  # (F,), at least LEAST_DEVIATION


class Sums:
    """Sums over frames that come piece by piece."""

    def __init__(self, bands: int) -> None:
        self.frames = 0
        self._first, self._second = np.zeros(bands), np.zeros(bands)  # of values, of squares

    def add(self, logmel: NDArray[np.floating]) -> None:
        """Take (T, F) frames."""
        exact = logmel.astype(np.float64)
        self.frames += len(exact)
        self._first += exact.sum(0)
        self._second += np.square(exact).sum(0)

    def statistics(self) -> Statistics:
        """Return the mean and the deviation of all frames; mean 0 where there were none."""
        count = max(self.frames, 1)
        mean = self._first / count
        variance = np.maximum(self._second / count - np.square(mean), LEAST_DEVIATION**2)
        return Statistics(mean.astype(np.float32), np.sqrt(variance).astype(np.float32))


def by_speaker(config: RecognizerConfig) -> bool:
    """Return whether a recogniser needs statistics of each speaker."""
    return config.features.normalisation == "speaker"


def check_streams(config: RecognizerConfig) -> None:
    """Look whether a recogniser's features can be computed from a stream.

    Raises:
        ValueError: they need statistics of the speaker.
    """
    if by_speaker(config):
        raise ValueError(
            "expected features normalised causally ('running' or 'fixed') for streams, got "
            "'speaker': its mean and deviation are of all that a speaker says, which nobody knows "
            "while he speaks; `cortado transcribe` and `cortado evaluate` take such a model"
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
    """Return (B, T, F) log-mel frames by the statistics of each row's speaker."""
    pairs = list(statistics)
    means = torch.from_numpy(np.stack([one.mean for one in pairs])).unsqueeze(1)
    deviations = torch.from_numpy(np.stack([one.deviation for one in pairs])).unsqueeze(1)
    return (logmel - means) / deviations
