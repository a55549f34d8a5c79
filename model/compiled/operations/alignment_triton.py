"""The expected alignment (attention/expected_alignment.py) as Triton kernels, on a GPU.

One program is a row: a parallel scan over (gate, value) pairs.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

LONGEST = 8_192  # T; a row is held in registers, 16 entries of it in each thread at most


@triton.jit
def _compose(gate_a, value_a, gate_b, value_b):  # type: ignore[no-untyped-def]
    """Return the gate and the value of the step a and then the step b."""
    return gate_a * gate_b, gate_b * value_a + value_b


@triton.jit
def _forward(p_at, previous_at, q_at, alpha_at, frames, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    j = tl.arange(0, BLOCK)
    at = tl.program_id(0).to(tl.int64) * frames + j
    inside = j < frames
    passed = 1 - tl.load(p_at + at - 1, mask=inside & (j > 0), other=1.0)
    given = tl.load(previous_at + at, mask=inside, other=0.0)
    _, q = tl.associative_scan((passed, given), 0, _compose)
    p = tl.load(p_at + at, mask=inside, other=0.0)
    tl.store(q_at + at, q, mask=inside)
    tl.store(alpha_at + at, p * q, mask=inside)


@triton.jit
def _backward(p_at, q_at, grad_at, grad_p_at, grad_previous_at, frames, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    j = tl.arange(0, BLOCK)
    at = tl.program_id(0).to(tl.int64) * frames + j
    inside, followed = j < frames, j + 1 < frames
    next_p = tl.load(p_at + at + 1, mask=followed, other=0.0)
    next_grad = tl.load(grad_at + at + 1, mask=followed, other=0.0)
    _, ahead = tl.associative_scan((1 - next_p, next_p * next_grad), 0, _compose, reverse=True)
    p = tl.load(p_at + at, mask=inside, other=0.0)
    q = tl.load(q_at + at, mask=inside, other=0.0)
    grad = tl.load(grad_at + at, mask=inside, other=0.0)
    tl.store(grad_p_at + at, (grad - ahead) * q, mask=inside)
    tl.store(grad_previous_at + at, p * grad + (1 - p) * ahead, mask=inside)


def _block(frames: int) -> tuple[int, int]:
    """Return the entries that a program holds and its warps."""
    block = max(triton.next_power_of_2(frames), 32)
    return block, min(max(block // 128, 1), 16)


def forward_row(p: Tensor, previous: Tensor) -> tuple[Tensor, Tensor]:
    """Return q and alpha (B, T) of p and previous (B, T), T up to `LONGEST`."""
    p, previous = p.contiguous(), previous.contiguous()
    q, alpha = torch.empty_like(p), torch.empty_like(p)
    block, warps = _block(p.shape[1])
    _forward[(len(p),)](p, previous, q, alpha, p.shape[1], BLOCK=block, num_warps=warps)
    return q, alpha


def backward_row(p: Tensor, q: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients to p and previous (B, T), given that to alpha."""
    p, q, grad = p.contiguous(), q.contiguous(), grad.contiguous()
    grad_p, grad_previous = torch.empty_like(p), torch.empty_like(p)
    block, warps = _block(p.shape[1])
    _backward[(len(p),)](
        p, q, grad, grad_p, grad_previous, p.shape[1], BLOCK=block, num_warps=warps
    )
    return grad_p, grad_previous
