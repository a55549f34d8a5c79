"""The exact expected alignment of monotonic attention (Raffel et al. 2017, eqs. 9-11).

    q_j = (1 - p_{j-1}) q_{j-1} + alpha_{i-1,j},    alpha_{i,j} = p_j q_j

The papers' closed form divides by a product of (1 - p) that underflows, and every implementation
that clips it is wrong on long inputs. The recurrence itself is exact: all terms are >= 0 and all
gates <= 1. It runs as compiled loops; the backward pass is the reversed recurrence and needs p and
q only:

    q_bar_j = p_j a_bar_j + (1 - p_j) q_bar_{j+1}
    dL/d alpha_{i-1,j} = q_bar_j,    dL/d p_j = (a_bar_j - q_bar_{j+1}) q_j
"""

from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float32] | NDArray[np.float64]


@numba.njit(cache=True, nogil=True)
def _forward(p: Array, previous: Array, q: Array, alpha: Array) -> None:
    for b in range(p.shape[0]):
        mass = p.dtype.type(0)
        for j in range(p.shape[1]):
            mass += previous[b, j]
            q[b, j] = mass
            alpha[b, j] = p[b, j] * mass
            mass *= 1 - p[b, j]


@numba.njit(cache=True, nogil=True)
def _backward(p: Array, q: Array, grad: Array, grad_p: Array, grad_previous: Array) -> None:
    for b in range(p.shape[0]):
        ahead = p.dtype.type(0)
        for j in range(p.shape[1] - 1, -1, -1):
            grad_p[b, j] = (grad[b, j] - ahead) * q[b, j]
            ahead = p[b, j] * grad[b, j] + (1 - p[b, j]) * ahead
            grad_previous[b, j] = ahead


class _ExpectedAlignment(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, p: Tensor, previous: Tensor) -> Tensor:
        p, previous = p.contiguous(), previous.contiguous()
        q, alpha = torch.empty_like(p), torch.empty_like(p)
        _forward(p.numpy(), previous.numpy(), q.numpy(), alpha.numpy())
        ctx.save_for_backward(p, q)
        return alpha

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        p, q = ctx.saved_tensors
        grad_p, grad_previous = torch.empty_like(p), torch.empty_like(p)
        grad = grads[0].contiguous()
        _backward(p.numpy(), q.numpy(), grad.numpy(), grad_p.numpy(), grad_previous.numpy())
        return grad_p, grad_previous


def first_alignment(batch: int, frames: int) -> Tensor:
    """Return the (B, T) alignment before the first symbol: all mass on the first frame."""
    alignment = torch.zeros(batch, frames)
    alignment[:, :1] = 1
    return alignment


def expected_alignment(p: Tensor, previous: Tensor) -> Tensor:
    """Return alpha_i (B, T): the probability that the scan for symbol i stops at each frame.

    Args:
        p: (B, T) probability of stopping at each frame once there, float32 or float64 on the CPU;
            0 on padding.
        previous: (B, T) alpha_{i-1}; `first_alignment` for the first symbol.

    What is missing to 1 in a row's sum is the probability that the scan ran off the end.

    Raises:
        ValueError: shapes or types differ.
    """
    if p.shape != previous.shape or p.dim() != 2 or p.dtype != previous.dtype:
        raise ValueError(
            "expected p and previous of one shape (B, T) and type, "
            f"got {tuple(p.shape)} {p.dtype} and {tuple(previous.shape)} {previous.dtype}"
        )
    if p.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"expected float32 or float64, got {p.dtype}")
    alpha: Tensor = _ExpectedAlignment.apply(p, previous)  # type: ignore[no-untyped-call]
    return alpha
