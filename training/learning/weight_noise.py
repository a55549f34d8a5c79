"""Variational weight noise on recurrent weights and embeddings (Graves 2011)."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

NOISY = (nn.LSTM, nn.LSTMCell, nn.Embedding)


@contextmanager
def weight_noise(model: nn.Module, deviation: float, seed: int) -> Iterator[None]:
    """Add Gaussian noise to the weights of LSTMs and embeddings while gradients are formed.

    Every process of a run draws the same noise. Biases keep their values; so does the convolutional
    LSTM, whose weights are few and shared by all frequencies.

    Args:
        model: changed in place, and put back afterwards to the bit.
        deviation: standard deviation of the noise; 0 for none.
        seed: of the noise.
    """
    kept: dict[nn.Parameter, torch.Tensor] = {}
    if deviation:
        generator = torch.Generator().manual_seed(seed)
        for module in model.modules():
            if isinstance(module, NOISY):
                for parameter in module.parameters(recurse=False):
                    if parameter.dim() > 1:
                        kept[parameter] = parameter.detach().clone()
                        noise = torch.randn(parameter.shape, generator=generator)
                        with torch.no_grad():
                            parameter.add_(noise.to(parameter), alpha=deviation)
    try:
        yield
    finally:
        with torch.no_grad():
            for parameter, value in kept.items():
                parameter.copy_(value)
