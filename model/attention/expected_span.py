"""The exact expected attention of MAtChA: a softmax from one stop to the next.

Source: Chiu & Raffel 2018, appendix C. With Z_kl the sum of exp(u) over the span k..l,

    beta_j = sum_{k<=j} sum_{l>=j} previous_k p_l prod_{n=k}^{l-1} (1 - p_n) exp(u_j) / Z_kl

For one start k let joint_l be what stands before the fraction, w_l = exp(u_l) / Z_kl the newest
entry's share of its span and r_l = Z_k,l-1 / Z_kl what it leaves to the others. Then

    S_j = joint_j + r_{j+1} S_{j+1},    beta_j gains w_j S_j
    A_j = w_j b_j + r_j A_{j-1}                       (the mean of b = dL/dbeta over the span)
    D_j = joint_j A_j + r_{j+1} D_{j+1},    dL/du_j gains w_j (b_j S_j - D_j)

and dL/djoint_j = A_j + dL/dalpha_j goes back through the scan as in expected_alignment.py. Shares
come from a running maximum and all are from 0 to 1: no energy is too large or too small. On the CPU
this takes O(T^2) time and O(T) memory a symbol, elsewhere tensors of (B, T, T), freed before the
next symbol; kept for the backward pass are p, previous and the energies.
"""

import math
from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cortado.model.attention.scan import reverse_scan, scan, shifted

Array = NDArray[np.float32] | NDArray[np.float64]
Doubles = NDArray[np.float64]

HALF = (torch.bfloat16, torch.float16)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _span(
    k: int, p: Array, mass: float, energies: Array, reached: Doubles, share: Doubles, left: Doubles
) -> None:
    """Write P_l (the scan gets from k to l), w_l and r_l for all l >= k."""
    top, total = float(energies[k]), 0.0
    for j in range(k, len(p)):
        u = float(energies[j])
        if u > top:
            kept, new = total * math.exp(top - u), 1.0
            top = u
        else:
            kept, new = total, math.exp(u - top)
        total = kept + new
        reached[j], share[j], left[j] = mass, new / total, kept / total
        mass *= 1.0 - p[j]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _forward(p: Array, previous: Array, energies: Array, alpha: Array, beta: Array) -> None:
    batch, frames = p.shape
    reached, share, left, stops, gained = np.zeros((5, frames))
    for b in range(batch):
        stops[:] = 0
        gained[:] = 0
        for k in range(frames):
            if previous[b, k] == 0:
                continue
            _span(k, p[b], float(previous[b, k]), energies[b], reached, share, left)
            s, passed = 0.0, 0.0
            for j in range(frames - 1, k - 1, -1):
                joint = p[b, j] * reached[j]
                s = joint + passed * s
                stops[j] += joint
                gained[j] += share[j] * s
                passed = left[j]
        alpha[b] = stops
        beta[b] = gained


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _backward(
    p: Array,
    previous: Array,
    energies: Array,
    grad_alpha: Array,
    grad_beta: Array,
    grad_p: Array,
    grad_previous: Array,
    grad_energies: Array,
) -> None:
    batch, frames = p.shape
    reached, share, left, mean, to_p, to_u = np.zeros((6, frames))
    for b in range(batch):
        to_p[:] = 0
        to_u[:] = 0
        for k in range(frames):
            # From a start of mass 1, so that where `previous` is 0 its gradient comes out as well.
            _span(k, p[b], 1.0, energies[b], reached, share, left)
            mass = float(previous[b, k])
            a = 0.0
            for j in range(k, frames):
                a = share[j] * grad_beta[b, j] + left[j] * a
                mean[j] = a
            s, d, passed, ahead = 0.0, 0.0, 0.0, 0.0
            for j in range(frames - 1, k - 1, -1):
                joint = p[b, j] * reached[j]
                s = joint + passed * s
                d = joint * mean[j] + passed * d
                to_u[j] += mass * share[j] * (grad_beta[b, j] * s - d)
                passed = left[j]
                total = mean[j] + grad_alpha[b, j]
                to_p[j] += mass * (total - ahead) * reached[j]
                ahead = p[b, j] * total + (1.0 - p[b, j]) * ahead
            grad_previous[b, k] = ahead
        grad_p[b] = to_p
        grad_energies[b] = to_u


class _ExpectedSpan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, p: Tensor, previous: Tensor, energies: Tensor) -> tuple[Tensor, Tensor]:
        p, previous, energies = p.contiguous(), previous.contiguous(), energies.contiguous()
        ctx.save_for_backward(p, previous, energies)
        if p.device.type != "cpu":
            return spans_forward(p, previous, energies)
        alpha, beta = torch.empty_like(p), torch.empty_like(p)
        arrays = [x.numpy() for x in (p, previous, energies, alpha, beta)]
        _forward(*arrays)
        return alpha, beta

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        saved = ctx.saved_tensors
        if saved[0].device.type != "cpu":
            return spans_backward(*saved, *grads)
        found = tuple(torch.empty_like(x) for x in saved)
        _backward(*(x.contiguous().numpy() for x in (*saved, *grads, *found)))
        return found


def _spans(p: Tensor, energies: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return P, w and r (B, T, T) of all starts k (dimension 1) and ends l >= k, else 0."""
    frames = p.shape[1]
    spans = torch.ones(frames, frames, dtype=torch.bool, device=p.device).triu()
    passed = torch.where(spans, 1 - p.unsqueeze(1), 1)
    reached = shifted(passed, 1, 1.0).cumprod(2) * spans
    u = energies.unsqueeze(1).where(spans, -torch.inf)
    top = u.cummax(2).values
    before = shifted(top, 1, -torch.inf)
    kept = torch.where(before == -torch.inf, 0, (before - top).exp())  # -inf minus -inf is NaN
    new = torch.where(spans, (u - top).exp(), 0)
    total = scan(kept, new)
    return (
        reached,
        torch.where(spans, new / total, 0),
        torch.where(spans, kept * shifted(total, 1) / total, 0),
    )


def spans_forward(p: Tensor, previous: Tensor, energies: Tensor) -> tuple[Tensor, Tensor]:
    """Return alpha and beta (B, T) by tensor operations, for any device."""
    reached, share, left = _spans(p, energies)
    joint = previous.unsqueeze(2) * reached * p.unsqueeze(1)
    return joint.sum(1), (share * reverse_scan(shifted(left, -1), joint)).sum(1)


def spans_backward(
    p: Tensor, previous: Tensor, energies: Tensor, grad_alpha: Tensor, grad_beta: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients to p, previous and the energies by tensor operations."""
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


def expected_span(p: Tensor, previous: Tensor, energies: Tensor) -> tuple[Tensor, Tensor]:
    """Return alpha_i and beta_i (B, T): where MAtChA stops, and what it attends to, for one symbol.

    Args:
        p: (B, T) probability of stopping at each frame once there, from 0 to 1; 0 on padding.
        previous: (B, T) alpha_{i-1}; `first_alignment` for the first symbol.
        energies: (B, T) chunk energies of any size, finite on padding, too.

    All are float32 or all float64, and so are the results; bfloat16 and float16 are taken as
    float32. beta sums to what alpha sums to: the probability that the scan stopped at all.

    Raises:
        ValueError: shapes, types or devices differ.
    """
    given = [x.float() if x.dtype in HALF else x for x in (p, previous, energies)]
    kinds = {(tuple(x.shape), x.dtype, x.device) for x in given}
    if len(kinds) > 1 or p.dim() != 2:
        raise ValueError(
            "expected p, previous and energies of one shape (B, T), type and device, got "
            + ", ".join(f"{tuple(x.shape)} {x.dtype} {x.device}" for x in given)
        )
    if given[0].dtype not in (torch.float32, torch.float64):
        raise ValueError(f"expected float64, float32, bfloat16 or float16, got {p.dtype}")
    alpha, beta = _ExpectedSpan.apply(*given)  # type: ignore[no-untyped-call]
    return alpha, beta
