"""The expected attention of MAtChA (attention/expected_span.py) as compiled loops, on a CPU.

A symbol takes O(T^2) time and O(T) memory.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cortado.model.arrays import Array
from cortado.model.compiled.jit import cached_njit
from cortado.model.operation import kernel

Doubles = NDArray[np.float64]


@kernel("expected_span", "CPU")
def forward(p: Tensor, previous: Tensor, energies: Tensor) -> tuple[Tensor, Tensor]:
    """Return alpha and beta (B, T)."""
    alpha, beta = torch.empty_like(p), torch.empty_like(p)
    _forward(*(x.detach().numpy() for x in (p, previous, energies, alpha, beta)))
    return alpha, beta


@kernel("expected_span_backward", "CPU")
def backward(
    p: Tensor, previous: Tensor, energies: Tensor, grad_alpha: Tensor, grad_beta: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients in p, previous and the energies."""
    found = torch.empty_like(p), torch.empty_like(p), torch.empty_like(p)
    given = p, previous, energies, grad_alpha, grad_beta
    _backward(*(x.detach().numpy() for x in (*given, *found)))
    return found


@cached_njit(error_model="numpy")
def _span(
    k: int, p: Array, mass: float, energies: Array, reached: Doubles, share: Doubles, left: Doubles
) -> None:
    """Write P_l (the scan gets from k to l), w_l and r_l for all l >= k."""
    top, total = float(energies[k]), 0.0
    for j in range(k, len(p)):
        u = float(energies[j])
        if u > top:
            old, new = total * math.exp(top - u), 1.0
            top = u
        else:
            old, new = total, math.exp(u - top)
        total = old + new
        reached[j], share[j], left[j] = mass, new / total, old / total
        mass *= 1.0 - p[j]


@cached_njit(error_model="numpy")
def _forward(p: Array, previous: Array, energies: Array, alpha: Array, beta: Array) -> None:
    batch, frames = p.shape
    reached, share, left, stops, attended = np.zeros((5, frames))
    for b in range(batch):
        stops[:] = 0
        attended[:] = 0
        for k in range(frames):
            if previous[b, k] == 0:
                continue
            _span(k, p[b], float(previous[b, k]), energies[b], reached, share, left)
            s, passed = 0.0, 0.0
            for j in range(frames - 1, k - 1, -1):
                joint = p[b, j] * reached[j]
                s = joint + passed * s
                stops[j] += joint
                attended[j] += share[j] * s
                passed = left[j]
        alpha[b] = stops
        beta[b] = attended


@cached_njit(error_model="numpy")
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
    reached, share, left, mean, sum_p, sum_u = np.zeros((6, frames))
    for b in range(batch):
        sum_p[:] = 0
        sum_u[:] = 0
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
                sum_u[j] += mass * share[j] * (grad_beta[b, j] * s - d)
                passed = left[j]
                total = mean[j] + grad_alpha[b, j]
                sum_p[j] += mass * (total - ahead) * reached[j]
                ahead = p[b, j] * total + (1.0 - p[b, j]) * ahead
            grad_previous[b, k] = ahead
        grad_p[b] = sum_p
        grad_energies[b] = sum_u
