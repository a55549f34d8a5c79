"""Features normalised by statistics over all that a speaker says, as in the papers for WSJ.

They are known only when the speaker has finished, so no stream can have them: a recogniser that
was trained on them hears recordings, each time as the recogniser `adapted` to their speaker.
"""

import copy
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cortado.model.features.log_mel import HOP, OVERLAP, Features
from cortado.model.recognizer import Recognizer, RecognizerConfig

LEAST_DEVIATION = 0.1  # nepers; a recording of digital silence has none, and is not to explode

Samples = NDArray[np.float32]
Module = TypeVar("Module", bound=nn.Module)


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
        waiting = torch.zeros(OVERLAP)
        for piece in pieces:
            waiting = torch.cat([waiting, torch.from_numpy(piece)])
            whole = (len(waiting) - OVERLAP) // HOP * HOP
            if whole:
                frames = features.logmel.frames(waiting[: OVERLAP + whole].unsqueeze(0))
                sums.add(frames[0].numpy())
                waiting = waiting[whole:]
    return sums.statistics()


def adapted(recognizer: Recognizer, statistics: Statistics) -> Recognizer:
    """Return the recogniser of one speaker, which streams; it shares all weights.

    Raises:
        ValueError: the recogniser is not one of speakers' statistics.
    """
    config = recognizer.config
    if not by_speaker(config):
        got = config.features.normalisation
        raise ValueError(f"expected features normalised by 'speaker', got {got!r}")
    features = replace(config.features, normalisation="fixed")
    found, found_features = _twin(recognizer), _twin(recognizer.features)
    found.config = replace(config, features=features)
    found.features = found_features
    normalizer = _twin(recognizer.features.normalizer)
    normalizer.normalisation = "fixed"
    normalizer.mean = torch.from_numpy(statistics.mean)
    normalizer.deviation = torch.from_numpy(statistics.deviation)
    found_features.normalizer = normalizer
    return found


def own(recognizer: Recognizer, samples: Samples) -> Recognizer:
    """Return the recogniser that hears a recording (N,) at 16 kHz, whose speaker is nobody else's.

    It is the one given, unless that needs statistics of the speaker.
    """
    if not by_speaker(recognizer.config):
        return recognizer
    return adapted(recognizer, statistics_of(recognizer.features, [[samples]]))


def _twin(module: Module) -> Module:
    """Return a module with the same parts, which can be replaced in it alone."""
    twin = copy.copy(module)
    twin._modules, twin._buffers = dict(module._modules), dict(module._buffers)
    return twin


def standardised(logmel: Tensor, statistics: Iterable[Statistics]) -> Tensor:
    """Return (B, T, F) log-mel frames by the statistics of each row's speaker."""
    pairs = list(statistics)
    means = torch.from_numpy(np.stack([one.mean for one in pairs])).unsqueeze(1)
    deviations = torch.from_numpy(np.stack([one.deviation for one in pairs])).unsqueeze(1)
    return (logmel - means) / deviations
