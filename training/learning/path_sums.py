"""The sums over all paths of phones (sequence_loss.py) as compiled loops, on a CPU.

A tensor a frame would be copied more often than it is multiplied. Phones that cannot be said cost
nothing, which are nearly all of those of paths that stay near the aligner's.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from cortado.model.arrays import Array
from cortado.model.compiled.functions import FAST
from cortado.model.compiled.jit import cached_njit

EVEN = 32  # numbers that a loop of vector instructions takes at once


class CompiledLogSum(torch.autograd.Function):
    """The log (B,) of the sum over all paths, as `sequence_loss.log_sum` defines it."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, known: Tensor, trigram: Tensor) -> Tensor:
        """Return it of (B, T, P) scores of frames that are known (B, T)."""
        rows, frames, _ = scores.shape
        most = scores.detach().amax(2, keepdim=True)
        heard = (scores.detach() - most).exp()
        first = even(trigram.sum(0).t() / trigram.sum())  # [last, before]
        change = even(trigram.permute(2, 1, 0))  # [next, last, before]
        sums = first.new_empty(rows, frames, *first.shape)
        total = scores.new_zeros(rows)
        _forward(*(x.numpy() for x in (heard, known, change, first, total, sums)))
        ctx.save_for_backward(heard, known, trigram, sums)
        return total + most[..., 0].where(known, 0).sum(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """Return the gradient in the scores: the share of all paths with a phone at a frame."""
        heard, known, trigram, sums = ctx.saved_tensors
        change = even(trigram.transpose(0, 1))  # [last, before, next]
        shares = torch.zeros_like(heard)
        _backward(*(x.numpy() for x in (heard, known, change, sums, shares)))
        return shares * gradient[:, None, None], None, None


def even(x: Tensor) -> Tensor:
    """Return (..., P) numbers with zeros behind the last, up to a multiple of EVEN."""
    return pad(x, (0, -x.shape[-1] % EVEN)).contiguous()


@cached_njit(fastmath=FAST, error_model="numpy")
def _forward(
    heard: Array, known: Array, change: Array, first: Array, total: Array, sums: Array
) -> None:
    """Add to the logs `total` what each frame's sums came to, and set the sums, of one in all."""
    rows, frames, phones, width = sums.shape
    before = np.empty_like(first)
    for r in range(rows):
        before[:] = first
        for t in range(frames):
            now = sums[r, t]
            if known[r, t]:
                now[:] = 0
                mass = first.dtype.type(0)
                for phone in range(phones):
                    loudness = heard[r, t, phone]
                    if loudness == 0:
                        continue
                    for last in range(phones):
                        found = before[phone, last]  # paths whose last phone lasts
                        for a in range(width):
                            found += before[last, a] * change[phone, last, a]
                        now[phone, last] = found * loudness
                        mass += now[phone, last]
                total[r] += np.log(mass)
                for phone in range(phones):
                    for last in range(width):
                        before[phone, last] = now[phone, last] / mass
            now[:] = before


@cached_njit(fastmath=FAST, error_model="numpy")
def _backward(heard: Array, known: Array, change: Array, sums: Array, shares: Array) -> None:
    """Set the share of all paths that have each phone at each frame."""
    rows, frames, phones, width = sums.shape
    zero = heard.dtype.type(0)
    after = np.empty((phones, width), heard.dtype)  # [last, before]
    later = np.zeros((phones, width), heard.dtype)  # [before, last]
    for r in range(rows):
        after[:] = 1
        for t in range(frames - 1, -1, -1):
            if not known[r, t]:
                continue
            now, mass = sums[r, t], zero
            for last in range(phones):
                found = zero
                for a in range(width):
                    found += now[last, a] * after[last, a]
                shares[r, t, last] = found
                mass += found
                for a in range(phones):
                    later[a, last] = after[last, a] * heard[r, t, last]
            for last in range(phones):
                shares[r, t, last] /= mass
            if t == 0:
                break
            reached, mass = sums[r, t - 1], zero
            for last in range(phones):
                for a in range(phones):
                    found = zero
                    if reached[last, a] != 0:  # else no path comes from there
                        found = later[a, last]
                        for phone in range(width):
                            found += later[last, phone] * change[last, a, phone]
                    after[last, a] = found
                    mass += found
            for last in range(phones):
                for a in range(phones):
                    after[last, a] /= mass
