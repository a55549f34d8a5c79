"""Variational weight noise (Graves 2011): on recurrent layers and embeddings, or on all weights."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from cortado.model.encoder.conv_lstm import ConvLSTM
from cortado.training.learning.stage import NoisyWeights

RECURRENT = (nn.LSTM, nn.LSTMCell, ConvLSTM)


@contextmanager
def weight_noise(
    model: nn.Module, deviation: float, seed: int, on: NoisyWeights = "recurrent"
) -> Iterator[None]:
    """Add Gaussian noise to weights while gradients are formed.

    Every process of a run draws the same noise.

    Args:
        model: changed in place, and restored exactly afterwards.
        deviation: standard deviation of the noise; 0 for none.
        seed: of the noise.
        on: which weights have it, as `noisy` lists them.
    """
    original: dict[nn.Parameter, torch.Tensor] = {}
    if deviation:
        generator = torch.Generator().manual_seed(seed)
        for parameter in noisy(model, on):
            original[parameter] = parameter.detach().clone()
            noise = torch.randn(parameter.shape, generator=generator)
            with torch.no_grad():
                parameter.add_(noise.to(parameter), alpha=deviation)
    try:
        yield
    finally:
        with torch.no_grad():
            for parameter, value in original.items():
                parameter.copy_(value)


def noisy(model: nn.Module, on: NoisyWeights) -> list[nn.Parameter]:
    """Return the parameters that have noise, biases among them.

    "recurrent" are those of LSTMs, of the convolutional LSTM and of embeddings (Chiu & Raffel 2018,
    appendix A; Raffel et al. 2017, appendix D, for WSJ); "all" are all (the same, for TIMIT).
    """
    if on == "all":
        return list(model.parameters())
    chosen = (m for m in model.modules() if isinstance(m, (*RECURRENT, nn.Embedding)))
    return [parameter for module in chosen for parameter in module.parameters()]
