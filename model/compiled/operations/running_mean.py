"""The running mean of the features on a CPU, for tensors on any device; cuda.py has a GPU's own."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from cortado.model.arrays import Array
from cortado.model.compiled.functions import FAST
from cortado.model.compiled.jit import cached_njit
from cortado.model.compiled.running_mean import follow
from cortado.model.features.framing import DRAWN
from cortado.model.operation import definition, kernel

Flags = NDArray[np.bool_]

MIN_FRAMES = 8  # for fewer, tensor operations are as fast
_ONE, _ZERO = np.float32(1), np.float32(0)
_DRAWN = np.float32(DRAWN)


@kernel("running_means", "CPU", "MPS")
def running_means(
    x: Tensor, mean: Tensor, memory: Tensor, prior: Tensor, deviation: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what `features.running_mean` defines."""
    if x.shape[1] <= MIN_FRAMES or x.dtype != torch.float32:
        return definition("running_means")(x, mean, memory, prior, deviation)
    return _RunningMeans.apply(x, mean, memory, prior, deviation)  # type: ignore[no-untyped-call]


class _RunningMeans(torch.autograd.Function):
    """Has gradients in x and in the mean before it; the frames of a restart are constants."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, mean: Tensor, memory: Tensor, prior: Tensor, deviation: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.deviation, last = _array(deviation), _array(memory).copy()
        means, *ctx.stored = _means(_array(x), _array(mean), last, _array(prior), ctx.deviation)
        found = torch.from_numpy(means).to(x)
        return found, found[:, -1].clone(), torch.from_numpy(last).to(memory)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        shares, restarted, limited = ctx.stored
        grad_mean = _array(grads[1]).copy()
        found = _backward(_array(grads[0]), grad_mean, shares, restarted, limited, ctx.deviation)
        grad_x, grad_previous = (torch.from_numpy(one).to(grads[0]) for one in (found, grad_mean))
        return grad_x, grad_previous, None, None, None


def _array(x: Tensor) -> Array:
    return x.detach().cpu().contiguous().numpy()


@cached_njit(fastmath=FAST, error_model="numpy")
def _means(
    x: Array, previous: Array, memory: Array, prior: Array, deviation: Array
) -> tuple[Array, Array, Flags, Flags]:
    """Return the (B, T, F) running means of x, and what `_backward` needs.

    That is the frames' weights in the mean (B, T), where the mean restarts (B, T), and which bands
    are limited (B, T, F).
    """
    means, mean, inverse = np.empty_like(x), np.empty_like(prior), _ONE / deviation
    shares, restarted = np.empty(x.shape[:2], np.float32), np.zeros(x.shape[:2], np.bool_)
    limited = np.empty(x.shape, np.bool_)
    for b in range(len(x)):
        mean[:] = previous[b]
        for t in range(x.shape[1]):
            shares[b, t], restarted[b, t] = follow(
                x[b, t], mean, memory[b], prior, deviation, inverse, limited[b, t]
            )
            means[b, t] = mean
    return means, shares, restarted, limited


@cached_njit(fastmath=FAST, error_model="numpy")
def _backward(
    grads: Array,
    grad_means: Array,
    shares: Array,
    restarted: Flags,
    limited: Flags,
    deviation: Array,
) -> Array:
    """Return the gradient in x from those in the means; set that in the last to the first's."""
    found, bands = np.empty_like(grads), grads.shape[2]
    for b in range(len(grads)):
        grad_mean = grad_means[b]  # the gradient in a mean, of all those from its frame on
        for t in range(grads.shape[1] - 1, -1, -1):
            grad_mean += grads[b, t]
            pulled = _DRAWN * grad_mean * limited[b, t]
            grad_mean += (pulled * deviation).sum() / (np.float32(bands) * deviation) - pulled
            found[b, t] = grad_mean * shares[b, t]
            grad_mean *= _ZERO if restarted[b, t] else _ONE - shares[b, t]
    return found
