"""Muon: steps along the nearest orthogonal matrix of the momentum (Jordan et al. 2024).

As long as Adam's, so that both take one learning rate (Liu et al. 2025). torch.optim.Muon computes
the same, always in bfloat16, which some CPUs multiply more slowly than float32, and all of it in
every process; here each process orthogonalises its share of the matrices.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from cortado.training.learning.device import matmul_type

MOMENTUM = 0.95
ITERATIONS = 5
QUINTIC = (3.4445, -4.775, 2.0315)  # steepest at 0: singular values come near 1 soonest
ADAM_LENGTH = 0.2  # root mean square of Adam's steps, by Liu et al.


class Muon(torch.optim.Optimizer):
    """Muon with Nesterov's momentum, for matrices."""

    def __init__(self, matrices: Iterable[Tensor], lr: float, weight_decay: float = 0.0) -> None:
        super().__init__(matrices, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Take a step; all processes have the same gradients and come to the same weights."""
        for group in self.param_groups:
            learnt = [one for one in group["params"] if one.grad is not None]
            updates = [self._momentum(one) for one in learnt]
            for matrix, update in zip(learnt, orthogonalised(updates), strict=True):
                matrix.mul_(1 - group["lr"] * group["weight_decay"])
                length = ADAM_LENGTH * max(matrix.shape) ** 0.5
                matrix.add_(update, alpha=-group["lr"] * length)

    def _momentum(self, matrix: Tensor) -> Tensor:
        """Move a matrix's momentum towards its gradient; return the gradient moved towards it."""
        gradient, state = matrix.grad, self.state[matrix]
        assert gradient is not None
        momentum = state.setdefault("momentum_buffer", torch.zeros_like(matrix))
        momentum.lerp_(gradient, 1 - MOMENTUM)
        return gradient.lerp(momentum, MOMENTUM)


def orthogonalised(matrices: Sequence[Tensor]) -> list[Tensor]:
    """Return the nearest orthogonal matrices, each computed by one of the processes."""
    if not dist.is_initialized():
        return [nearest_orthogonal(one) for one in matrices]
    owners, rank = _owners(matrices, dist.get_world_size()), dist.get_rank()
    flat = torch.cat(
        [
            (nearest_orthogonal(one) if owner == rank else torch.zeros_like(one)).flatten()
            for one, owner in zip(matrices, owners, strict=True)
        ]
    )
    dist.all_reduce(flat)
    parts = flat.split([one.numel() for one in matrices])
    return [part.view_as(one) for part, one in zip(parts, matrices, strict=True)]


def _owners(matrices: Sequence[Tensor], processes: int) -> list[int]:
    """Return which process computes each matrix, so that all have about as much to do."""
    loads, owners = [0] * processes, [0] * len(matrices)
    costs = [min(one.shape) * one.numel() for one in matrices]
    for index in sorted(range(len(costs)), key=lambda index: -costs[index]):
        owners[index] = loads.index(min(loads))
        loads[owners[index]] += costs[index]
    return owners


def nearest_orthogonal(matrix: Tensor) -> Tensor:
    """Return U V' of a matrix U S V', about: its singular values lie between 0.7 and 1.2."""
    a, b, c = QUINTIC
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if tall else matrix
    x = (x / x.norm().clamp(min=1e-7)).to(matmul_type(matrix.device))
    for _ in range(ITERATIONS):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.T if tall else x).to(matrix.dtype)
