"""The additive energy of monotonic attention, with a compiled kernel for training on the CPU.

    e_j = g * v'/||v|| tanh(W_s s + W_h h_j + b) + r        (Raffel et al. 2017, eq. 16)

A decoder asks for the energies of all frames once a symbol. Written with tensor operations, that
is a (B, T, d) tensor of tanh a symbol, kept for the backward pass and there summed with all the
others; most of a training step would be spent on moving them. The kernel keeps none: it computes
tanh again on the way back and adds each symbol's gradient to the keys into one buffer.
"""

from typing import Any, NamedTuple

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cortado.model.attention.shared_matmul import SharedMatrix
from cortado.model.compiled.functions import FAST, tanh

Array = NDArray[np.float32]


@numba.njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _forward(query: Array, keys: Array, direction: Array, energies: Array) -> None:
    for b in range(keys.shape[0]):
        for j in range(keys.shape[1]):
            total = np.float32(0)
            for k in range(keys.shape[2]):
                total += direction[k] * tanh(query[b, k] + keys[b, j, k])
            energies[b, j] = total


@numba.njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _backward(
    query: Array,
    keys: Array,
    direction: Array,
    grad: Array,
    grad_query: Array,
    grad_keys: Array,
    grad_direction: Array,
) -> None:
    for b in range(keys.shape[0]):
        for j in range(keys.shape[1]):
            g = grad[b, j]
            if g == 0:  # frames that the attention cannot reach
                continue
            for k in range(keys.shape[2]):
                t = tanh(query[b, k] + keys[b, j, k])
                d = g * direction[k] * (np.float32(1) - t * t)
                grad_direction[k] += g * t
                grad_query[b, k] += d
                grad_keys[b, j, k] += d


class _Sink:
    """Where the symbols' gradients to the keys are added up."""

    def __init__(self) -> None:
        self.gradient: Tensor | None = None


class Keys(NamedTuple):
    """Encoder frames as an energy sees them."""

    projected: Tensor  # (B, T, d) W_h h + b
    sink: _Sink
    query: SharedMatrix  # W_s
    unit: Tensor  # (d,) g * v / ||v||, or v itself


class _Shared(torch.autograd.Function):
    """The keys, unchanged; on the way back, what all symbols left in the sink."""

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
        energies = query.new_empty(keys.shape[:2])
        _forward(query.numpy(), keys.numpy(), direction.numpy(), energies.numpy())
        ctx.save_for_backward(query, keys, direction)
        ctx.sink = sink
        return energies

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, Tensor, None]:
        query, keys, direction = ctx.saved_tensors
        if ctx.sink.gradient is None:
            ctx.sink.gradient = torch.zeros_like(keys)
        grad_query, grad_direction = torch.zeros_like(query), torch.zeros_like(direction)
        _backward(
            query.numpy(),
            keys.numpy(),
            direction.numpy(),
            grads[0].contiguous().numpy(),
            grad_query.numpy(),
            ctx.sink.gradient.numpy(),
            grad_direction.numpy(),
        )
        return grad_query, None, grad_direction, None


def shared(projected: Tensor, weight: Tensor, direction: Tensor) -> Keys:
    """Return the keys of frames for any number of queries.

    Args:
        projected: (B, T, d) W_h h + b.
        weight: (d, H) W_s.
        direction: (d,) what the hidden layer is multiplied with.
    """
    sink = _Sink()
    keys: Tensor = _Shared.apply(projected.contiguous(), sink)  # type: ignore[no-untyped-call]
    return Keys(keys, sink, SharedMatrix(weight.t()), direction)


def additive(query: Tensor, keys: Keys) -> Tensor:
    """Return direction' tanh(W_s s + W_h h + b) (B, T) of (B, H) queries."""
    projected, sink, matrix, unit = keys
    asked = matrix.multiply(query)
    if projected.dtype == torch.float32 and projected.device.type == "cpu":
        energies: Tensor = _Energies.apply(asked, projected, unit, sink)  # type: ignore[no-untyped-call]
        return energies
    return (asked.unsqueeze(1) + projected).tanh() @ unit


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
