"""The running mean of the features on a CPU; what lies on another device is brought there."""

from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cortado.model.compiled.functions import FAST
from cortado.model.features.framing import BOUND, DRAWN, DROP, MEMORY_FRAMES, PRIOR_FRAMES
from cortado.model.operation import definition, kernel

Array = NDArray[np.float32]
Flags = NDArray[np.bool_]

FEW = 8  # frames that are not worth it
_ONE, _NOTHING = np.float32(1), np.float32(0)
_PRIOR, _MEMORY, _DROP = (np.float32(x) for x in (PRIOR_FRAMES, MEMORY_FRAMES, DROP))
_BOUND, _DRAWN = np.float32(BOUND), np.float32(DRAWN)


@kernel("running_means", "CPU", "CUDA", "MPS")
def running_means(
    x: Tensor, mean: Tensor, count: Tensor, prior: Tensor, deviation: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what `features.running_mean` defines."""
    if x.shape[1] <= FEW or x.dtype != torch.float32:
        return definition("running_means")(x, mean, count, prior, deviation)
    found: tuple[Tensor, Tensor, Tensor] = _RunningMeans.apply(x, mean, count, prior, deviation)  # type: ignore[no-untyped-call]
    return found


class _RunningMeans(torch.autograd.Function):
    """With a gradient in x and in the mean before it; where the mean begins anew is as it is."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, mean: Tensor, count: Tensor, prior: Tensor, deviation: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.deviation, last = _array(deviation), _array(count).copy()
        means, *ctx.kept = _means(_array(x), _array(mean), last, _array(prior), ctx.deviation)
        found = torch.from_numpy(means).to(x)
        return found, found[:, -1].clone(), torch.from_numpy(last).to(count)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        shares, anew, drawn = ctx.kept
        later = _array(grads[1]).copy()
        found = _back(_array(grads[0]), later, shares, anew, drawn, ctx.deviation)
        of_x, of_mean = (torch.from_numpy(one).to(grads[0]) for one in (found, later))
        return of_x, of_mean, None, None, None


def _array(x: Tensor) -> Array:
    found: Array = x.detach().cpu().contiguous().numpy()
    return found


@numba.njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _means(
    x: Array, before: Array, counts: Array, prior: Array, deviation: Array
) -> tuple[Array, Array, Flags, Flags]:
    """Return the (B, T, F) running means of x, and what `_back` wants to know.

    These are the (B, T) shares of the frames, whether the mean begins anew at them, and the (B, T,
    F) bands that are drawn.
    """
    means, mean, inverse = np.empty_like(x), np.empty_like(prior), _ONE / deviation
    shares, anew = np.empty(x.shape[:2], np.float32), np.zeros(x.shape[:2], np.bool_)
    drawn, bands = np.empty(x.shape, np.bool_), len(prior)
    for b in range(len(x)):
        mean[:], count = before[b], counts[b, 0]
        for t in range(x.shape[1]):
            frame, level = x[b, t], _NOTHING
            for m in range(bands):
                level += (frame[m] - mean[m]) * inverse[m]
            if level < -_DROP * np.float32(bands):
                mean[:], count, anew[b, t] = prior, _PRIOR, True
            count = min(count + _ONE, _MEMORY)
            share = shares[b, t] = _ONE / count
            level = _NOTHING
            for m in range(bands):
                mean[m] += (frame[m] - mean[m]) * share
                level += (mean[m] - prior[m]) * inverse[m]
            level /= np.float32(bands)
            for m in range(bands):
                away = (mean[m] - prior[m]) * inverse[m] - level
                beyond = away - min(max(away, -_BOUND), _BOUND)
                mean[m] -= _DRAWN * beyond * deviation[m]
                drawn[b, t, m] = beyond != _NOTHING
            means[b, t] = mean
        counts[b, 0] = count
    return means, shares, anew, drawn


@numba.njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _back(
    gradient: Array, laters: Array, shares: Array, anew: Flags, drawn: Flags, deviation: Array
) -> Array:
    """Return the gradient in x from those in the means; set that in the last to the first's."""
    found, bands = np.empty_like(gradient), gradient.shape[2]
    for b in range(len(gradient)):
        later = laters[b]  # the gradient in a mean, of all those from its frame on
        for t in range(gradient.shape[1] - 1, -1, -1):
            later += gradient[b, t]
            taken = _DRAWN * later * drawn[b, t]
            later += (taken * deviation).sum() / (np.float32(bands) * deviation) - taken
            found[b, t] = later * shares[b, t]
            later *= _NOTHING if anew[b, t] else _ONE - shares[b, t]
    return found
