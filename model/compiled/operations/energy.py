"""The additive energy (attention/energy.py) as compiled loops, on a CPU."""

import numpy as np
import torch
from torch import Tensor

from cortado.model.arrays import Array
from cortado.model.compiled.functions import FAST, tanh
from cortado.model.compiled.jit import cached_njit
from cortado.model.operation import definition, kernel


@kernel("additive_energy", "CPU")
def forward(query: Tensor, keys: Tensor, direction: Tensor) -> Tensor:
    """Return direction' tanh(query + keys) (B, T)."""
    if keys.dtype != torch.float32:
        return definition("additive_energy")(query, keys, direction)
    energies = query.new_empty(keys.shape[:2])
    _forward(*(x.detach().numpy() for x in (query, keys, direction, energies)))
    return energies


@kernel("additive_energy_backward", "CPU")
def backward(
    query: Tensor, keys: Tensor, direction: Tensor, grad: Tensor, grad_keys: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the gradients in the queries and the direction; add that in the keys to grad_keys."""
    if keys.dtype != torch.float32:
        return definition("additive_energy_backward")(query, keys, direction, grad, grad_keys)
    found = torch.zeros_like(query), torch.zeros_like(direction)
    given = query, keys, direction, grad, found[0], grad_keys, found[1]
    _backward(*(x.detach().numpy() for x in given))
    return found


@cached_njit(fastmath=FAST, error_model="numpy")
def _forward(query: Array, keys: Array, direction: Array, energies: Array) -> None:
    for b in range(keys.shape[0]):
        for j in range(keys.shape[1]):
            total = np.float32(0)
            for k in range(keys.shape[2]):
                total += direction[k] * tanh(query[b, k] + keys[b, j, k])
            energies[b, j] = total


@cached_njit(fastmath=FAST, error_model="numpy")
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
