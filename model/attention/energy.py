"""The additive energy of monotonic attention.

    e_j = g * v'/||v|| tanh(W_s s + W_h h_j + b) + r        (Raffel et al. 2017, eq. 16)

A decoder computes the energies of all frames for each symbol. Autograd would store a (B, T, d)
tensor of tanh for each symbol; most of a training step would go into moving them. So none is
stored: the backward pass computes tanh again, and adds all symbols' gradients in the keys to one
buffer.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from cortado.model.attention.gathered import Gathered
from cortado.model.attention.shared_matmul import SharedMatrix
from cortado.model.operation import operation


@operation("additive_energy(Tensor query, Tensor keys, Tensor direction) -> Tensor")
def energies_forward(query: Tensor, keys: Tensor, direction: Tensor) -> Tensor:
    """Return direction' tanh(query + keys) (B, T) of queries (B, d) and keys (B, T, d)."""
    return (query.unsqueeze(1) + keys).tanh() @ direction


@operation(
    "additive_energy_backward(Tensor query, Tensor keys, Tensor direction, Tensor grad,"
    " Tensor(a!) grad_keys) -> (Tensor, Tensor)"
)
def energies_backward(
    query: Tensor, keys: Tensor, direction: Tensor, grad: Tensor, grad_keys: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the gradients in the queries and the direction; add that in the keys to grad_keys."""
    t = (query.unsqueeze(1) + keys).tanh()
    inner = grad.unsqueeze(2) * (direction * (1 - t * t))
    grad_keys.add_(inner)
    return inner.sum(1), torch.einsum("bt,btd->d", grad, t)


class Keys(NamedTuple):
    """The keys of an energy: projected encoder frames."""

    projected: Tensor  # (B, T, d) W_h h + b
    sums: Gathered[Tensor]  # of the gradients in projected, one
    query: SharedMatrix  # W_s
    unit: Tensor  # (d,) g * v / ||v||, or v itself


class _Shared(torch.autograd.Function):
    """The identity on the keys; its backward pass returns the sum of the symbols' gradients."""

    @staticmethod
    def forward(ctx: Any, keys: Tensor, sums: Gathered[Tensor]) -> Tensor:
        ctx.sums = sums
        ctx.set_materialize_grads(False)
        return keys.view_as(keys)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, None]:
        given = [*ctx.sums.take(), *(grad for grad in grads if grad is not None)]
        return (sum(given[1:], given[0]) if given else None), None


class _Energies(torch.autograd.Function):
    """direction' tanh(query + keys)."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, keys: Tensor, direction: Tensor, sums: Gathered[Tensor]
    ) -> Tensor:
        query, direction = query.contiguous(), direction.contiguous()
        ctx.save_for_backward(query, keys, direction)
        ctx.sums = sums
        return energies_forward(query, keys, direction)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, Tensor, None]:
        query, keys, direction = ctx.saved_tensors
        sums = ctx.sums.parts()
        if not sums:
            sums.append(torch.zeros_like(keys))
        grad_query, grad_direction = energies_backward(
            query, keys, direction, grads[0].contiguous(), sums[0]
        )
        return grad_query, None, grad_direction, None


def shared(projected: Tensor, weight: Tensor, direction: Tensor) -> Keys:
    """Return the keys of frames for any number of queries.

    Args:
        projected: (B, T, d) W_h h + b.
        weight: (d, H) W_s.
        direction: (d,) g * v / ||v||, or v.
    """
    sums = Gathered[Tensor]()
    keys: Tensor = _Shared.apply(projected.contiguous(), sums)  # type: ignore[no-untyped-call]
    return Keys(keys, sums, SharedMatrix(weight.t()), direction)


def additive(query: Tensor, keys: Keys) -> Tensor:
    """Return direction' tanh(W_s s + W_h h + b) (B, T) of (B, H) queries."""
    projected, sums, matrix, unit = keys
    projected_query = matrix.multiply(query)
    return _Energies.apply(projected_query, projected, unit, sums)  # type: ignore[no-untyped-call]


class AdditiveEnergy(nn.Module):
    """g * v'/||v|| tanh(W_s s + W_h h + b) + r."""

    def __init__(self, query_width: int, key_width: int, width: int, bias: float) -> None:
        super().__init__()
        self.query = nn.Linear(query_width, width, bias=False)
        self.key = nn.Linear(key_width, width)
        self.direction = nn.Parameter(torch.randn(width))
        self.scale = nn.Parameter(torch.tensor(width**-0.5))
        self.bias = nn.Parameter(torch.tensor(bias))

    def keys(self, values: Tensor) -> Keys:
        """Return the keys of (B, T, H) encoder frames, for any number of queries."""
        return shared(self.key(values), self.query.weight, self.unit())

    def unit(self) -> Tensor:
        """Return the (d,) direction g * v / ||v||."""
        return self.scale * self.direction / self.direction.norm()

    def forward(self, query: Tensor, keys: Keys) -> Tensor:
        """Return (B, T) energies of (B, H) queries."""
        return additive(query, keys) + self.bias

    def at(self, query: Tensor, keys: Tensor) -> Tensor:
        """Return (S, w) energies of (S, H) queries at (S, w, d) projected keys, in serving."""
        energies: Tensor = (self.query(query).unsqueeze(1) + keys).tanh() @ self.unit()
        return energies + self.bias
