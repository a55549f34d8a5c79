"""The exact expected alignment of monotonic attention (Raffel et al. 2017, eqs. 9-11).

    q_j = (1 - p_{j-1}) q_{j-1} + alpha_{i-1,j},    alpha_{i,j} = p_j q_j

The papers' closed form divides by a product of (1 - p) that underflows, and every implementation
that clips it is wrong on long inputs. The recurrence itself is exact: all terms are >= 0 and all
gates <= 1. The backward pass is the reversed recurrence and needs p and q only:

    q_bar_j = p_j a_bar_j + (1 - p_j) q_bar_{j+1}
    dL/d alpha_{i-1,j} = q_bar_j,    dL/d p_j = (a_bar_j - q_bar_{j+1}) q_j

Here it is a parallel scan in tensor operations, row after row, for any device.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from cortado.model.attention.inputs import checked_inputs
from cortado.model.attention.scan import reverse_scan, scan, shifted
from cortado.model.operation import operation


@operation("expected_alignment(Tensor p, Tensor previous) -> (Tensor, Tensor)")
def alignment_forward(p: Tensor, previous: Tensor) -> tuple[Tensor, Tensor]:
    """Return q and alpha (B, U, T) of p (B, U, T) and the alignment before them (B, T)."""
    rows = []
    for row in p.unbind(1):
        q = scan(1 - shifted(row, 1), previous)
        previous = row * q
        rows.append(torch.stack([q, previous]))
    q, alpha = torch.stack(rows, 2)
    return q, alpha


@operation("expected_alignment_backward(Tensor p, Tensor q, Tensor grad) -> (Tensor, Tensor)")
def alignment_backward(p: Tensor, q: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients in p (B, U, T) and in the alignment before them (B, T)."""
    ahead, found = torch.zeros_like(p[:, 0]), []
    for i in range(p.shape[1] - 1, -1, -1):
        total = grad[:, i] + ahead
        ahead = reverse_scan(1 - p[:, i], p[:, i] * total)
        found.append((total - shifted(ahead, -1)) * q[:, i])
    return torch.stack(found[::-1], 1), ahead


class _ExpectedAlignment(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, p: Tensor, previous: Tensor) -> Tensor:
        p = p.contiguous()
        q, alpha = alignment_forward(p, previous.contiguous())
        ctx.save_for_backward(p, q)
        return alpha

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        p, q = ctx.saved_tensors
        return alignment_backward(p, q, grads[0].contiguous())


def first_alignment(batch: int, frames: int, device: torch.device | None = None) -> Tensor:
    """Return the (B, T) alignment before the first symbol: all mass on the first frame."""
    alpha = torch.zeros(batch, frames, device=device)
    alpha[:, :1] = 1
    return alpha


def expected_alignment(p: Tensor, previous: Tensor) -> Tensor:
    """Return alpha_i (B, T): the probability that the scan for symbol i stops at each frame.

    Args:
        p: (B, T) probability of stopping at each frame once there, from 0 to 1; 0 on padding, so
            that no mass stays there.
        previous: (B, T) alpha_{i-1}, on the same device; `first_alignment` for the first symbol.

    Both are float32 or both float64, and so is alpha. bfloat16 and float16 inputs are taken as
    float32 and give float32: rounded alignments would lose mass from symbol to symbol.

    What is missing to 1 in a row's sum is the probability that the scan ran off the end.

    Raises: ValueError where shapes, types or devices differ.
    """
    p, previous = checked_inputs(p=p, previous=previous)
    alpha: Tensor = _ExpectedAlignment.apply(p.unsqueeze(1), previous)  # type: ignore[no-untyped-call]
    return alpha.squeeze(1)


def expected_alignments(p: Tensor, previous: Tensor | None = None) -> Tensor:
    """Return alpha (B, U, T) of all symbols, where no p depends on the alignments before it.

    Equal to `expected_alignment` row by row, without its cost of a call a symbol.

    Args:
        p: (B, U, T) probabilities of stopping, as in `expected_alignment`.
        previous: (B, T) the alignment before the first of them; `first_alignment` if None.

    Raises: ValueError where shapes, types or devices differ.
    """
    if p.dim() != 3:
        raise ValueError(f"expected p of shape (B, U, T), got {tuple(p.shape)}")
    if previous is None:
        previous = first_alignment(p.shape[0], p.shape[2], p.device).to(p)
    first, previous = checked_inputs(p=p[:, :1].sum(1), previous=previous)  # zeros of none
    if not p.shape[1]:
        return p.to(first)
    return _ExpectedAlignment.apply(p.to(first), previous)  # type: ignore[no-untyped-call]
