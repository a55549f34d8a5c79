"""The expected alignment (attention/expected_alignment.py) as compiled loops, on a CPU."""

import torch
from torch import Tensor

from cortado.model.arrays import Array
from cortado.model.compiled.jit import cached_njit
from cortado.model.operation import kernel


@kernel("expected_alignment", "CPU")
def forward(p: Tensor, previous: Tensor) -> tuple[Tensor, Tensor]:
    """Return q and alpha (B, U, T)."""
    p, q, alpha = p.detach(), torch.empty_like(p), torch.empty_like(p)
    _forward(p.numpy(), previous.detach().numpy(), q.numpy(), alpha.numpy())
    return q, alpha


@kernel("expected_alignment_backward", "CPU")
def backward(p: Tensor, q: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients in p (B, U, T) and in the alignment before them (B, T)."""
    p, grad_p, row = p.detach(), torch.empty_like(p), torch.zeros_like(p[:, 0])
    _backward(p.numpy(), q.detach().numpy(), grad.detach().numpy(), grad_p.numpy(), row.numpy())
    return grad_p, row


@cached_njit()
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


@cached_njit()
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
