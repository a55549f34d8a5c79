"""The expected chunk weights (attention/expected_chunk.py) as compiled loops, on a CPU."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from cortado.model.arrays import Array
from cortado.model.compiled.functions import FAST, exp
from cortado.model.compiled.jit import cached_njit
from cortado.model.operation import kernel

IN_ORDER = FAST - {"reassoc"}  # differences that must not be regrouped


@kernel("expected_chunk", "CPU")
def expected_chunk(alpha: Tensor, energies: Tensor, chunk: int) -> Tensor:
    """Return beta (B, T)."""
    return _ExpectedChunk.apply(alpha, energies, chunk)  # type: ignore[no-untyped-call]


class _ExpectedChunk(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, alpha: Tensor, energies: Tensor, chunk: int) -> Tensor:
        alpha, energies = alpha.detach().contiguous(), energies.detach().contiguous()
        beta = torch.empty_like(alpha)
        _forward(alpha.numpy(), energies.numpy(), chunk, beta.numpy())
        ctx.save_for_backward(alpha, energies)
        ctx.chunk = chunk
        return beta

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        alpha, energies = ctx.saved_tensors
        found = torch.empty_like(alpha), torch.empty_like(energies)
        grad = grads[0].contiguous().numpy()
        grad_alpha, grad_energies = (one.numpy() for one in found)
        _backward(alpha.numpy(), energies.numpy(), ctx.chunk, grad, grad_alpha, grad_energies)
        return *found, None


@cached_njit(fastmath=FAST, error_model="numpy")
def _shares(energies: Array, shares: Array, total: Array) -> None:
    """Write the softmax weights (w, T) of one utterance: (b, k) is frame k - b in window k."""
    frames = len(energies)
    top = total  # first the maximum of each window, then its sum
    for k in range(frames):
        top[k] = energies[k]
    for back in range(1, len(shares)):
        for k in range(back, frames):
            top[k] = max(top[k], energies[k - back])
    for back in range(len(shares)):
        for k in range(min(back, frames)):
            shares[back, k] = 0
        for k in range(back, frames):
            shares[back, k] = exp(energies[k - back] - top[k])
    for k in range(frames):
        total[k] = shares[0, k]
    for back in range(1, len(shares)):
        for k in range(frames):
            total[k] += shares[back, k]
    for k in range(frames):
        total[k] = 1 / total[k]
    for back in range(len(shares)):
        for k in range(frames):
            shares[back, k] *= total[k]


@cached_njit(fastmath=FAST, error_model="numpy")
def _forward(alpha: Array, energies: Array, chunk: int, beta: Array) -> None:
    frames = alpha.shape[1]
    shares, total = np.empty((chunk, frames), alpha.dtype), np.empty(frames, alpha.dtype)
    for b in range(len(alpha)):
        _shares(energies[b], shares, total)
        beta[b] = 0
        for back in range(chunk):
            for k in range(back, frames):
                beta[b, k - back] += alpha[b, k] * shares[back, k]


@cached_njit(fastmath=FAST, error_model="numpy")
def _gradient_at_maximum(
    energies: Array, grad: Array, chunk: int, top: Array, at_maximum: Array
) -> None:
    """Write the gradient at the largest energy of each window."""
    for k in range(len(energies)):
        top[k], at_maximum[k] = energies[k], grad[k]
    for back in range(1, chunk):
        for k in range(back, len(energies)):
            higher = energies[k - back] > top[k]
            at_maximum[k] = grad[k - back] if higher else at_maximum[k]
            top[k] = energies[k - back] if higher else top[k]


@cached_njit(fastmath=IN_ORDER, error_model="numpy")
def _backward(
    alpha: Array, energies: Array, chunk: int, grad: Array, grad_alpha: Array, grad_energies: Array
) -> None:
    frames = alpha.shape[1]
    shares, total = np.empty((chunk, frames), alpha.dtype), np.empty(frames, alpha.dtype)
    at_maximum, change = np.empty(frames, alpha.dtype), np.empty(frames, alpha.dtype)
    for b in range(len(alpha)):
        _shares(energies[b], shares, total)
        _gradient_at_maximum(energies[b], grad[b], chunk, total, at_maximum)
        # Where one share is nearly 1, its b - a would cancel; so both are taken from b at the top.
        change[:] = 0
        grad_energies[b] = 0
        for back in range(chunk):
            for k in range(back, frames):
                change[k] += shares[back, k] * (grad[b, k - back] - at_maximum[k])
        for k in range(frames):
            grad_alpha[b, k] = at_maximum[k] + change[k]
        for back in range(chunk):
            for k in range(back, frames):
                ahead = (grad[b, k - back] - at_maximum[k]) - change[k]
                grad_energies[b, k - back] += alpha[b, k] * shares[back, k] * ahead
