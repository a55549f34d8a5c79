"""Kernels for CUDA: the expected alignment, row after row, and the features' running mean."""

import torch
from torch import Tensor

from cortado.model.compiled.operations import running_mean, running_mean_triton
from cortado.model.compiled.operations.alignment_triton import LONGEST, backward_row, forward_row
from cortado.model.operation import definition, kernel


@kernel("expected_alignment", "CUDA")
def forward(p: Tensor, previous: Tensor) -> tuple[Tensor, Tensor]:
    """Return q and alpha (B, U, T)."""
    if p.shape[2] > LONGEST:
        return definition("expected_alignment")(p, previous)
    q, alpha = torch.empty_like(p), torch.empty_like(p)
    for i in range(p.shape[1]):
        q[:, i], previous = forward_row(p[:, i], previous)
        alpha[:, i] = previous
    return q, alpha


@kernel("expected_alignment_backward", "CUDA")
def backward(p: Tensor, q: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients in p (B, U, T) and in the alignment before them (B, T)."""
    if p.shape[2] > LONGEST:
        return definition("expected_alignment_backward")(p, q, grad)
    grad_p, row = torch.empty_like(p), torch.zeros_like(p[:, 0])
    for i in range(p.shape[1] - 1, -1, -1):
        grad_p[:, i], row = backward_row(p[:, i], q[:, i], grad[:, i] + row)
    return grad_p, row


@kernel("running_means", "CUDA")
def running_means(
    x: Tensor, mean: Tensor, memory: Tensor, prior: Tensor, deviation: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the means, the last mean and memory; on the CPU where they have to have a gradient."""
    learns = torch.is_grad_enabled() and (x.requires_grad or mean.requires_grad)
    if learns or x.shape[1] <= running_mean.MIN_FRAMES or x.dtype != torch.float32:
        return running_mean.running_means(x, mean, memory, prior, deviation)
    return running_mean_triton.running_means(x, mean, memory, prior, deviation)
