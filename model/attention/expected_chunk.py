"""The exact expected chunk weights of MoChA (Chiu & Raffel 2018, eq. 19).

Stop k shares its mass alpha_k out by a softmax over its own window k - w + 1 .. k:

    beta_j = sum_{k=j}^{j+w-1} alpha_k s_kj,    s_kj = exp(u_j) / sum_{l=k-w+1}^{k} exp(u_l)

Computed from the windows themselves: the form with moving sums of exponentials, which public code
uses, loses every chunk whose energies lie far below the row's maximum. Backwards, b being dL/dbeta:

    a_k = dL/d alpha_k = sum_j s_kj b_j,    dL/du_j = sum_k alpha_k s_kj (b_j - a_k)
"""

from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cortado.model.compiled.functions import FAST, exp

Array = NDArray[np.float32] | NDArray[np.float64]

IN_ORDER = FAST - {"reassoc"}  # differences that must not be regrouped


@numba.njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _shares(energies: Array, shares: Array, total: Array) -> None:
    """Write s (w, T) of one utterance: what the stop at each frame gives to that many back."""
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


@numba.njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _forward(alpha: Array, energies: Array, chunk: int, beta: Array) -> None:
    frames = alpha.shape[1]
    shares, total = np.empty((chunk, frames), alpha.dtype), np.empty(frames, alpha.dtype)
    for b in range(len(alpha)):
        _shares(energies[b], shares, total)
        beta[b] = 0
        for back in range(chunk):
            for k in range(back, frames):
                beta[b, k - back] += alpha[b, k] * shares[back, k]


@numba.njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _at_top(energies: Array, grad: Array, chunk: int, top: Array, centre: Array) -> None:
    """Write the gradient at the largest energy of each window."""
    for k in range(len(energies)):
        top[k], centre[k] = energies[k], grad[k]
    for back in range(1, chunk):
        for k in range(back, len(energies)):
            higher = energies[k - back] > top[k]
            centre[k] = grad[k - back] if higher else centre[k]
            top[k] = energies[k - back] if higher else top[k]


@numba.njit(cache=True, nogil=True, fastmath=IN_ORDER, error_model="numpy")
def _backward(
    alpha: Array, energies: Array, chunk: int, grad: Array, grad_alpha: Array, grad_energies: Array
) -> None:
    frames = alpha.shape[1]
    shares, total = np.empty((chunk, frames), alpha.dtype), np.empty(frames, alpha.dtype)
    centre, change = np.empty(frames, alpha.dtype), np.empty(frames, alpha.dtype)
    for b in range(len(alpha)):
        _shares(energies[b], shares, total)
        _at_top(energies[b], grad[b], chunk, total, centre)
        # Where one share is nearly 1, its b - a would cancel; so both are taken from b at the top.
        change[:] = 0
        grad_energies[b] = 0
        for back in range(chunk):
            for k in range(back, frames):
                change[k] += shares[back, k] * (grad[b, k - back] - centre[k])
        for k in range(frames):
            grad_alpha[b, k] = centre[k] + change[k]
        for back in range(chunk):
            for k in range(back, frames):
                ahead = (grad[b, k - back] - centre[k]) - change[k]
                grad_energies[b, k - back] += alpha[b, k] * shares[back, k] * ahead


class _ExpectedChunk(torch.autograd.Function):
    """The compiled form, on the CPU."""

    @staticmethod
    def forward(ctx: Any, alpha: Tensor, energies: Tensor, chunk: int) -> Tensor:
        alpha, energies = alpha.contiguous(), energies.contiguous()
        beta = torch.empty_like(alpha)
        _forward(alpha.numpy(), energies.numpy(), chunk, beta.numpy())
        ctx.save_for_backward(alpha, energies)
        ctx.chunk = chunk
        return beta

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        alpha, energies = ctx.saved_tensors
        grad, grad_alpha = grads[0].contiguous(), torch.empty_like(alpha)
        grad_energies = torch.empty_like(energies)
        _backward(
            alpha.numpy(),
            energies.numpy(),
            ctx.chunk,
            grad.numpy(),
            grad_alpha.numpy(),
            grad_energies.numpy(),
        )
        return grad_alpha, grad_energies, None


def expected_chunk(alpha: Tensor, energies: Tensor, chunk: int) -> Tensor:
    """Return beta (B, T): alpha_k times the softmax of its own window, summed over the stops k.

    Args:
        alpha: (B, T) probability of stopping at each frame, 0 on padding.
        energies: (B, T) chunk energies of any size, finite on padding, too.
        chunk: w, the window's width in frames; it ends at the stop. 1 gives alpha itself.

    Both are float32 or both float64, and so is beta; bfloat16 and float16 are taken as float32.

    Raises:
        ValueError: shapes, types or devices differ, or the window has no frame.
    """
    alpha, energies = _wide(alpha), _wide(energies)
    if alpha.dim() != 2 or alpha.shape != energies.shape or alpha.dtype != energies.dtype:
        raise ValueError(
            "expected alpha and energies of one shape (B, T) and type, got "
            f"{tuple(alpha.shape)} {alpha.dtype} and {tuple(energies.shape)} {energies.dtype}"
        )
    if alpha.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"expected float64, float32, bfloat16 or float16, got {alpha.dtype}")
    if alpha.device != energies.device:
        raise ValueError(f"expected one device, got {alpha.device} and {energies.device}")
    if chunk < 1:
        raise ValueError(f"expected a chunk of 1 frame or more, got {chunk}")
    if chunk == 1:
        return alpha
    if alpha.device.type != "cpu":
        return expected_chunk_of_windows(alpha, energies, chunk)
    beta: Tensor = _ExpectedChunk.apply(alpha, energies, chunk)  # type: ignore[no-untyped-call]
    return beta


def expected_chunk_of_windows(alpha: Tensor, energies: Tensor, chunk: int) -> Tensor:
    """Return `expected_chunk` by tensor operations, for any device; it keeps (B, T, w) tensors."""
    padded = nn.functional.pad(energies, (chunk - 1, 0), value=-torch.inf)
    weights = alpha.unsqueeze(2) * padded.unfold(1, chunk, 1).softmax(2)  # (B, T, w)
    beta = weights[..., -1]
    for back in range(1, chunk):  # a stop at k gives to entry k - back
        given = nn.functional.pad(weights[:, :, chunk - 1 - back], (0, back))
        beta = beta + given[:, back:]
    return beta


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
