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


class _Sink:
    """The buffer in which the symbols' gradients in the keys are summed."""

    def __init__(self) -> None:
        self.gradient: Tensor | None = None


class Keys(NamedTuple):
    """The keys of an energy: projected encoder frames."""

    projected: Tensor  # (B, T, d) W_h h + b
    sink: _Sink
    query: SharedMatrix  # W_s
    unit: Tensor  # (d,) g * v / ||v||, or v itself


class _Shared(torch.autograd.Function):
    """The identity on the keys; its backward pass returns the sum in the sink."""

    @staticmethod
    def forward(ctx: Any, keys: Tensor, sink: _Sink) -> Tensor:
        ctx.sink = sink
        ctx.set_materialize_grads(False)
        return keys.view_as(keys)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, None]:
        total, ctx.sink.gradient = ctx.sink.gradient, None
        direct = grads[0]
        if total is None or direct is None:
            return (direct if total is None else total), None
        return total + direct, None


class _Energies(torch.autograd.Function):
    """direction' tanh(query + keys)."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, keys: Tensor, direction: Tensor, sink: _Sink) -> Tensor:
        query, direction = query.contiguous(), direction.contiguous()
        ctx.save_for_backward(query, keys, direction)
        ctx.sink = sink
        return energies_forward(query, keys, direction)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, Tensor, None]:
        query, keys, direction = ctx.saved_tensors
        if ctx.sink.gradient is None:
            ctx.sink.gradient = torch.zeros_like(keys)
        grad_query, grad_direction = energies_backward(
            query, keys, direction, grads[0].contiguous(), ctx.sink.gradient
        )
        return grad_query, None, grad_direction, None


def shared(projected: Tensor, weight: Tensor, direction: Tensor) -> Keys:
    """Return the keys of frames for any number of queries.

    Args:
        projected: (B, T, d) W_h h + b.
        weight: (d, H) W_s.
        direction: (d,) g * v / ||v||, or v.
    """
    sink = _Sink()
    keys: Tensor = _Shared.apply(projected.contiguous(), sink)  # type: ignore[no-untyped-call]
    return Keys(keys, sink, SharedMatrix(weight.t()), direction)


def additive(query: Tensor, keys: Keys) -> Tensor:
    """Return direction' tanh(W_s s + W_h h + b) (B, T) of (B, H) queries."""
    projected, sink, matrix, unit = keys
    projected_query = matrix.multiply(query)
    return _Energies.apply(projected_query, projected, unit, sink)  # type: ignore[no-untyped-call]


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
