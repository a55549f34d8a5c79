"""The running mean that features are normalised by: causal, forgetful, itself again after noise.

Every frame weighs 1 / count, where count grows by one a frame from PRIOR_FRAMES, the weight of the
training set's mean, to MEMORY_FRAMES. What is no speech moves the mean, too, and would distort the
speech behind it for seconds:

- Loud noise. Where a frame lies DROP deviations below the mean, over all bands together, what was
  so loud is over: mean and count are what they were at first. Speech as loud as may be falls less
  far in its pauses, to digital zero.
- Music, a hum. The level of the mean is free, its shape is held near the training set's: where a
  band lies more than BOUND deviations from all bands together, the share DRAWN of what is beyond is
  taken back each frame.
"""

from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cortado.model.compiled.functions import FAST
from cortado.model.features.framing import BOUND as BOUND
from cortado.model.features.framing import DRAWN as DRAWN
from cortado.model.features.framing import DROP as DROP
from cortado.model.features.framing import MEMORY_FRAMES as MEMORY_FRAMES
from cortado.model.features.framing import PRIOR_FRAMES as PRIOR_FRAMES

Array = NDArray[np.float32]
Flags = NDArray[np.bool_]

_ONE, _NOTHING = np.float32(1), np.float32(0)
_PRIOR, _MEMORY, _DROP = (np.float32(x) for x in (PRIOR_FRAMES, MEMORY_FRAMES, DROP))
_BOUND, _DRAWN = np.float32(BOUND), np.float32(DRAWN)


def stepwise_means(
    x: Tensor, mean: Tensor, count: Tensor, prior: Tensor, deviation: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the (B, T, F) running means of x up to and with each frame, the last mean and count.

    Args:
        x: (B, T, F) log-mel frames.
        mean: (B, F) as it was before them.
        count: (B, 1) frames in it.
        prior: (F,) the training set's mean.
        deviation: (F,) the training set's.
    """
    means = []
    for frame in x.unbind(1):
        over = ((frame - mean) / deviation).mean(1, keepdim=True) < -DROP
        mean = torch.where(over, prior, mean)
        count = (count.masked_fill(over, PRIOR_FRAMES) + 1).clamp(max=MEMORY_FRAMES)
        mean = _held(mean + (frame - mean) / count, prior, deviation)
        means.append(mean)
    return torch.stack(means, 1), mean, count


def _held(mean: Tensor, prior: Tensor, deviation: Tensor) -> Tensor:
    """Return means (B, F) whose bands are drawn to one another."""
    away = (mean - prior) / deviation
    level = away.mean(1, keepdim=True)
    beyond = away - torch.minimum(torch.maximum(away, level - BOUND), level + BOUND)
    return mean - DRAWN * beyond * deviation


def running_means(x: Tensor, prior: Tensor, deviation: Tensor) -> Tensor:
    """Return the means of `stepwise_means` from a stream's start, faster: compiled, on the CPU."""
    means: Tensor = _RunningMeans.apply(x, prior, deviation)  # type: ignore[no-untyped-call]
    return means


class _RunningMeans(torch.autograd.Function):
    """With a gradient in x alone; where the mean begins anew is as it is."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, prior: Tensor, deviation: Tensor) -> Tensor:
        ctx.deviation = _array(deviation)
        means, *ctx.kept = _means(_array(x), _array(prior), ctx.deviation)
        return torch.from_numpy(means).to(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        shares, anew, drawn = ctx.kept
        found = _back(_array(gradient), shares, anew, drawn, ctx.deviation)
        return torch.from_numpy(found).to(gradient), None, None


def _array(x: Tensor) -> Array:
    found: Array = x.detach().cpu().float().contiguous().numpy()
    return found


@numba.njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _means(x: Array, prior: Array, deviation: Array) -> tuple[Array, Array, Flags, Flags]:
    """Return the (B, T, F) running means of x, and what `_back` wants to know.

    These are the (B, T) shares of the frames, whether the mean begins anew at them, and the (B, T,
    F) bands that are drawn.
    """
    means, mean, inverse = np.empty_like(x), np.empty_like(prior), _ONE / deviation
    shares, anew = np.empty(x.shape[:2], np.float32), np.zeros(x.shape[:2], np.bool_)
    drawn, bands = np.empty(x.shape, np.bool_), len(prior)
    for b in range(len(x)):
        mean[:], count = prior, _PRIOR
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
    return means, shares, anew, drawn


@numba.njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _back(gradient: Array, shares: Array, anew: Flags, drawn: Flags, deviation: Array) -> Array:
    """Return the gradient in x from that in the means."""
    found, bands = np.empty_like(gradient), gradient.shape[2]
    for b in range(len(gradient)):
        later = np.zeros_like(gradient[b, 0])  # in a mean, of all those from its frame on
        for t in range(gradient.shape[1] - 1, -1, -1):
            later += gradient[b, t]
            taken = _DRAWN * later * drawn[b, t]
            later += (taken * deviation).sum() / (np.float32(bands) * deviation) - taken
            found[b, t] = later * shares[b, t]
            later *= _NOTHING if anew[b, t] else _ONE - shares[b, t]
    return found
