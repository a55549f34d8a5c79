"""Adaptation to a speaker: his statistics become the fixed mean and deviation of the features."""

import copy
from dataclasses import replace
from typing import TypeVar

import torch
from torch import nn

from cortado.model.arrays import Samples
from cortado.model.features.speaker import Statistics, statistics_of
from cortado.model.recognizer import Recognizer

Module = TypeVar("Module", bound=nn.Module)


def adapted(recognizer: Recognizer, statistics: Statistics) -> Recognizer:
    """Return a recogniser adapted to one speaker, which can stream; it shares all weights.

    Raises: ValueError where the recogniser's features do not need statistics of speakers.
    """
    config = recognizer.config
    if not config.features.by_speaker:
        got = config.features.normalisation
        raise ValueError(f"expected features normalised by 'speaker', got {got!r}")
    features = replace(config.features, normalisation="fixed")
    found, found_features = _copy(recognizer), _copy(recognizer.features)
    found.config = replace(config, features=features)
    found.features = found_features
    normalizer = _copy(recognizer.features.normalizer)
    normalizer.normalisation = "fixed"
    normalizer.mean = torch.from_numpy(statistics.mean)
    normalizer.deviation = torch.from_numpy(statistics.deviation)
    found_features.normalizer = normalizer
    return found


def adapted_to_recording(recognizer: Recognizer, samples: Samples) -> Recognizer:
    """Return the recogniser for one recording (N,) at 16 kHz, taken as its own speaker.

    It is the given one, unless that needs statistics of the speaker.
    """
    if not recognizer.config.features.by_speaker:
        return recognizer
    return adapted(recognizer, statistics_of(recognizer.features, [[samples]]))


def _copy(module: Module) -> Module:
    """Return a module with the same parts, which can be replaced in it alone."""
    found = copy.copy(module)
    found._modules, found._buffers = dict(module._modules), dict(module._buffers)
    return found
