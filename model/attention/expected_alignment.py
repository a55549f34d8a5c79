"""The exact expected alignment of monotonic attention (Raffel et al. 2017, eqs. 9-11).

    q_j = (1 - p_{j-1}) q_{j-1} + alpha_{i-1,j},    alpha_{i,j} = p_j q_j

The papers' closed form divides by a product of (1 - p) that underflows, and every implementation
that clips it is wrong on long inputs. The recurrence itself is exact: all terms are >= 0 and all
gates <= 1. The backward pass is the reversed recurrence and needs p and q only:

    q_bar_j = p_j a_bar_j + (1 - p_j) q_bar_{j+1}
    dL/d alpha_{i-1,j} = q_bar_j,    dL/d p_j = (a_bar_j - q_bar_{j+1}) q_j

On the CPU it runs as compiled loops, on CUDA as a Triton kernel, and anywhere else (or where Triton
is not installed) as a parallel scan in tensor operations.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cortado.model.attention.scan import reverse_scan, scan, shifted

Array = NDArray[np.float32] | NDArray[np.float64]


@numba.njit(cache=True, nogil=True)
def _forward(p: Array, previous: Array, q: Array, alpha: Array) -> None:
    for b in range(p.shape[0]):
        row = previous[b]
        for i in range(p.shape[1]):
            mass = p.dtype.type(0)
            for j in range(p.shape[2]):
                mass += row[j]
                q[b, i, j] = mass
                alpha[b, i, j] = p[b, i, j] * mass
                mass *= 1 - p[b, i, j]
            row = alpha[b, i]


@numba.njit(cache=True, nogil=True)
def _backward(p: Array, q: Array, grad: Array, grad_p: Array, grad_previous: Array) -> None:
    for b in range(p.shape[0]):
        row = grad_previous[b]  # of the symbol that follows, zero after the last
        for i in range(p.shape[1] - 1, -1, -1):
            ahead = p.dtype.type(0)
            for j in range(p.shape[2] - 1, -1, -1):
                total = grad[b, i, j] + row[j]
                grad_p[b, i, j] = (total - ahead) * q[b, i, j]
                ahead = p[b, i, j] * total + (1 - p[b, i, j]) * ahead
                row[j] = ahead


class RowKernels(NamedTuple):
    """The recurrence and its reverse, one row (B, T) at a time, for one kind of device."""

    forward: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]  # p, previous -> q, alpha
    backward: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]  # p, q, grad -> gradients


def _scan_forward(p: Tensor, previous: Tensor) -> tuple[Tensor, Tensor]:
    q = scan(1 - shifted(p, 1), previous)
    return q, p * q


def _scan_backward(p: Tensor, q: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    ahead = reverse_scan(1 - p, p * grad)
    return (grad - shifted(ahead, -1)) * q, ahead


SCAN = RowKernels(_scan_forward, _scan_backward)


@cache
def _triton() -> tuple[RowKernels, int]:
    """Return the Triton kernels and the longest T they take, 0 where Triton is not installed."""
    try:
        from cortado.model.attention import expected_alignment_triton as alignment_triton
    except ImportError:
        return SCAN, 0
    kernels = RowKernels(alignment_triton.forward, alignment_triton.backward)
    return kernels, alignment_triton.LONGEST


def _row_kernels(p: Tensor) -> RowKernels:
    """Return what computes rows of `p` (..., T), which is not on the CPU."""
    if p.device.type != "cuda":
        return SCAN
    kernels, longest = _triton()
    return kernels if p.shape[-1] <= longest else SCAN


class _ExpectedAlignment(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, p: Tensor, previous: Tensor) -> Tensor:
        p, previous = p.contiguous(), previous.contiguous()
        q, alpha = torch.empty_like(p), torch.empty_like(p)
        if p.device.type == "cpu":
            _forward(p.numpy(), previous.numpy(), q.numpy(), alpha.numpy())
        else:
            kernels = _row_kernels(p)
            for i in range(p.shape[1]):
                q[:, i], previous = kernels.forward(p[:, i], previous)
                alpha[:, i] = previous
        ctx.save_for_backward(p, q)
        return alpha

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        p, q = ctx.saved_tensors
        grad, grad_p, row = grads[0].contiguous(), torch.empty_like(p), torch.zeros_like(p[:, 0])
        if p.device.type == "cpu":
            _backward(p.numpy(), q.numpy(), grad.numpy(), grad_p.numpy(), row.numpy())
        else:
            kernels = _row_kernels(p)
            for i in range(p.shape[1] - 1, -1, -1):
                grad_p[:, i], row = kernels.backward(p[:, i], q[:, i], grad[:, i] + row)
        return grad_p, row


def first_alignment(batch: int, frames: int) -> Tensor:
    """Return the (B, T) alignment before the first symbol: all mass on the first frame."""
    alignment = torch.zeros(batch, frames)
    alignment[:, :1] = 1
    return alignment


def expected_alignment(p: Tensor, previous: Tensor) -> Tensor:
    """Return alpha_i (B, T): the probability that the scan for symbol i stops at each frame.

    Args:
        p: (B, T) probability of stopping at each frame once there, from 0 to 1; 0 on padding, so
            that no mass stays there.
        previous: (B, T) alpha_{i-1}, on the same device; `first_alignment` for the first symbol.

    Both are float32 or both float64, and so is alpha. bfloat16 and float16 inputs are taken as
    float32 and give float32: rounded alignments would lose mass from symbol to symbol.

    What is missing to 1 in a row's sum is the probability that the scan ran off the end.

    Raises:
        ValueError: shapes, types or devices differ.
    """
    p, previous = _wide(p), _wide(previous)
    if p.dim() != 2 or p.shape != previous.shape or p.dtype != previous.dtype:
        raise ValueError(
            "expected p and previous of one shape (B, T) and type, "
            f"got {tuple(p.shape)} {p.dtype} and {tuple(previous.shape)} {previous.dtype}"
        )
    return _apply(p.unsqueeze(1), previous).squeeze(1)


def expected_alignments(p: Tensor, previous: Tensor | None = None) -> Tensor:
    """Return alpha (B, U, T) of all symbols, where no p depends on the alignments before it.

    Equal to `expected_alignment` row by row, without its cost of a call a symbol.

    Args:
        p: (B, U, T) probabilities of stopping, as in `expected_alignment`.
        previous: (B, T) the alignment before the first of them; `first_alignment` if None.

    Raises:
        ValueError: shapes, types or devices differ.
    """
    p = _wide(p)
    if p.dim() != 3:
        raise ValueError(f"expected p of shape (B, U, T), got {tuple(p.shape)}")
    if previous is None:
        previous = first_alignment(p.shape[0], p.shape[2]).to(p)
    previous = _wide(previous)
    if previous.shape != p[:, 0].shape or p.dtype != previous.dtype:
        raise ValueError(
            f"expected previous of shape {tuple(p[:, 0].shape)} and type {p.dtype}, "
            f"got {tuple(previous.shape)} {previous.dtype}"
        )
    return _apply(p, previous)


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def _apply(p: Tensor, previous: Tensor) -> Tensor:
    if p.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"expected float64, float32, bfloat16 or float16, got {p.dtype}")
    if p.device != previous.device:
        raise ValueError(f"expected one device, got {p.device} and {previous.device}")
    alpha: Tensor = _ExpectedAlignment.apply(p, previous)  # type: ignore[no-untyped-call]
    return alpha
