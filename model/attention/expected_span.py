"""The exact expected attention of MAtChA: a softmax from one stop to the next.

Source: Chiu & Raffel 2018, appendix C. With Z_kl the sum of exp(u) over the span k..l,

    beta_j = sum_{k<=j} sum_{l>=j} previous_k p_l prod_{n=k}^{l-1} (1 - p_n) exp(u_j) / Z_kl

For one start k let joint_l be what stands before the fraction, w_l = exp(u_l) / Z_kl the newest
entry's share of its span and r_l = Z_k,l-1 / Z_kl what it leaves to the others. Then

    S_j = joint_j + r_{j+1} S_{j+1},    beta_j gains w_j S_j
    A_j = w_j b_j + r_j A_{j-1}                       (the mean of b = dL/dbeta over the span)
    D_j = joint_j A_j + r_{j+1} D_{j+1},    dL/du_j gains w_j (b_j S_j - D_j)

and dL/djoint_j = A_j + dL/dalpha_j goes back through the scan as in expected_alignment.py. Shares
come from a running maximum and all are from 0 to 1: no energy is too large or too small. A symbol
takes tensors of (B, T, T), freed before the next one; kept for the backward pass are p, previous
and the energies.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from cortado.model.attention.inputs import checked_inputs
from cortado.model.attention.scan import reverse_scan, scan, shifted
from cortado.model.operation import operation


def _spans(p: Tensor, energies: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return P, w and r (B, T, T) of all starts k (dimension 1) and ends l >= k, else 0."""
    frames = p.shape[1]
    spans = torch.ones(frames, frames, dtype=torch.bool, device=p.device).triu()
    passed = torch.where(spans, 1 - p.unsqueeze(1), 1)
    reached = shifted(passed, 1, 1.0).cumprod(2) * spans
    u = energies.unsqueeze(1).where(spans, -torch.inf)
    top = u.cummax(2).values
    before = shifted(top, 1, -torch.inf)
    old = torch.where(before == -torch.inf, 0, (before - top).exp())  # -inf minus -inf is NaN
    new = torch.where(spans, (u - top).exp(), 0)
    total = scan(old, new)
    return (
        reached,
        torch.where(spans, new / total, 0),
        torch.where(spans, old * shifted(total, 1) / total, 0),
    )


@operation("expected_span(Tensor p, Tensor previous, Tensor energies) -> (Tensor, Tensor)")
def spans_forward(p: Tensor, previous: Tensor, energies: Tensor) -> tuple[Tensor, Tensor]:
    """Return alpha and beta (B, T) of one symbol."""
    reached, share, left = _spans(p, energies)
    joint = previous.unsqueeze(2) * reached * p.unsqueeze(1)
    return joint.sum(1), (share * reverse_scan(shifted(left, -1), joint)).sum(1)


@operation(
    "expected_span_backward(Tensor p, Tensor previous, Tensor energies, Tensor grad_alpha,"
    " Tensor grad_beta) -> (Tensor, Tensor, Tensor)"
)
def spans_backward(
    p: Tensor, previous: Tensor, energies: Tensor, grad_alpha: Tensor, grad_beta: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients in p, previous and the energies."""
    reached, share, left = _spans(p, energies)
    joint, passed = reached * p.unsqueeze(1), shifted(left, -1)
    mean = scan(left, share * grad_beta.unsqueeze(1))
    s, d = reverse_scan(passed, joint), reverse_scan(passed, joint * mean)
    to_u = share * (grad_beta.unsqueeze(1) * s - d)
    total = (mean + grad_alpha.unsqueeze(1)).triu()
    stay = (1 - p).unsqueeze(1).expand_as(total)
    ahead = reverse_scan(stay, p.unsqueeze(1) * total)
    to_p = (total - shifted(ahead, -1)) * reached
    mass = previous.unsqueeze(2)
    return (mass * to_p).sum(1), ahead.diagonal(dim1=1, dim2=2), (mass * to_u).sum(1)


class _ExpectedSpan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, p: Tensor, previous: Tensor, energies: Tensor) -> tuple[Tensor, Tensor]:
        given = p.contiguous(), previous.contiguous(), energies.contiguous()
        ctx.save_for_backward(*given)
        return spans_forward(*given)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        return spans_backward(*ctx.saved_tensors, *(one.contiguous() for one in grads))


def expected_span(p: Tensor, previous: Tensor, energies: Tensor) -> tuple[Tensor, Tensor]:
    """Return alpha_i and beta_i (B, T): where MAtChA stops, and what it attends to, for one symbol.

    Args:
        p: (B, T) probability of stopping at each frame once there, from 0 to 1; 0 on padding.
        previous: (B, T) alpha_{i-1}; `first_alignment` for the first symbol.
        energies: (B, T) chunk energies of any size, finite on padding, too.

    All are float32 or all float64, and so are the results; bfloat16 and float16 are taken as
    float32. beta sums to what alpha sums to: the probability that the scan stopped at all.

    Raises: ValueError where shapes, types or devices differ.
    """
    given = checked_inputs(p=p, previous=previous, energies=energies)
    alpha, beta = _ExpectedSpan.apply(*given)  # type: ignore[no-untyped-call]
    return alpha, beta
