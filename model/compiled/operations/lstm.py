"""The LSTM on a CPU, for training.

The inputs' part of the gates is one product for all frames. The recurrence is one
compiled loop forward and one backward. torch's layer (oneDNN) is slower, mostly backward.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from cortado.model.arrays import Array
from cortado.model.compiled.cell import add_to, backward_cell, forward_cell
from cortado.model.compiled.jit import cached_njit
from cortado.model.compiled.operations import mixed
from cortado.model.compiled.product import begin, end, product
from cortado.model.operation import definition, kernel


@kernel("lstm", "CPU")
def lstm(
    x: Tensor, hidden: Tensor, cell: Tensor, weights: Sequence[Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what `encoder.lstm` defines; by torch's layer but where float32 is learnt."""
    learns = torch.is_grad_enabled() and weights[0].requires_grad
    if cell.dtype != torch.float32 or not (learns or torch.is_autocast_enabled("cpu")):
        return definition("lstm")(x, hidden, cell, weights)
    w_inputs, w_hidden, one, other = weights
    inputs = linear(x.transpose(0, 1), w_inputs, one + other)
    states, last = Recurrence.apply(inputs, w_hidden, hidden, cell)  # type: ignore[no-untyped-call]
    return states.transpose(0, 1), states[-1].float(), last


class Recurrence(torch.autograd.Function):
    """The hidden states of an LSTM whose gates are inputs + W hidden, in torch's order i, f, g, o.

    Inputs are (T, B, 4 H), W is (4 H, H), the state before them is (B, H). Returned are (T, B, H),
    bf16 or float32 as products are, and the last cell.
    """

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, weight: Tensor, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor]:
        frames, batch, width = len(inputs), inputs.shape[1], weight.shape[1]
        kind = mixed.kind()
        matrix, zero_bias = mixed.matrix(weight.t(), kind)
        states = mixed.factors(kind, frames + 1, batch, mixed.even(width))
        mixed.tensor(states)[0, :, :width] = hidden.detach()
        cells = np.empty((frames + 1, batch, width), np.float32)
        cells[0] = mixed.numbers(cell)
        gates = mixed.numbers(inputs, True)
        _forward(gates, states, cells, matrix, zero_bias, mixed.sums(batch, zero_bias))
        ctx.save_for_backward(weight)
        ctx.stored = kind, gates, states, cells
        return mixed.tensor(states)[1:, :, :width], torch.from_numpy(cells[-1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        (weight,), (kind, gates, states, cells) = ctx.saved_tensors, ctx.stored
        width = weight.shape[1]
        matrix, zero_bias = mixed.matrix(weight, kind)
        grad_gates, grad_cell = mixed.factors(kind, *gates.shape), mixed.numbers(grads[1], True)
        grad_inputs = mixed.sums(gates.shape[1], zero_bias)
        arrays = gates, cells, grad_gates, matrix, zero_bias, grad_inputs, grad_cell
        _backward(mixed.numbers(grads[0]), *arrays)
        found, previous = mixed.tensor(grad_gates), mixed.tensor(states)[:-1, :, :width]
        grad_weight = (found.flatten(0, 1).t() @ previous.flatten(0, 1)).float()
        batch = len(grad_cell)
        grad_hidden = grad_inputs[: batch * len(zero_bias)].reshape(batch, -1)[:, :width]
        return found, grad_weight, torch.from_numpy(grad_hidden), torch.from_numpy(grad_cell)


@cached_njit()
def _forward(
    gates: Array, hidden: Array, cells: Array, matrix: Array, zero_bias: Array, sums: Array
) -> None:
    """Set the hidden states and cells of all frames, and apply the gates' nonlinearities."""
    frames, batch, size = gates.shape
    k, n, flat = hidden.shape[2], len(zero_bias), hidden.ravel()
    h = size // 4
    begin(matrix)
    for t in range(frames):
        product(flat, t * batch * k, k, 1, 0, k, matrix, zero_bias, sums, batch)
        for b in range(batch):
            gate, cell = gates[t, b], cells[t + 1, b]
            add_to(sums[b * n : b * n + size], gate)
            i, f, g, o = gate[:h], gate[h : 2 * h], gate[2 * h : 3 * h], gate[3 * h :]
            forward_cell(i, f, g, o, cells[t, b], cell, hidden[t + 1, b])
    end(matrix)


@cached_njit()
def _backward(
    grads: Array,
    gates: Array,
    cells: Array,
    grad_gates: Array,
    matrix: Array,
    zero_bias: Array,
    grad_inputs: Array,
    grad_cell: Array,
) -> None:
    """Set the gradients in the gates of all frames, before their nonlinearities.

    At the end `grad_inputs` has the gradient in the initial hidden state, `grad_cell` in the cell.
    """
    frames, batch, size = gates.shape
    h, n, flat = size // 4, len(zero_bias), grad_gates.ravel()
    begin(matrix)
    for t in range(frames - 1, -1, -1):
        for b in range(batch):
            total, gate, out = grad_inputs[b * n : b * n + h], gates[t, b], grad_gates[t, b]
            add_to(grads[t, b], total)
            i, f, g, o = gate[:h], gate[h : 2 * h], gate[2 * h : 3 * h], gate[3 * h :]
            grad_i, grad_f, grad_g = out[:h], out[h : 2 * h], out[2 * h : 3 * h]
            previous, cell, grad_o = cells[t, b], cells[t + 1, b], out[3 * h :]
            backward_cell(
                total, i, f, g, o, previous, cell, grad_cell[b], grad_i, grad_f, grad_g, grad_o
            )
        product(flat, t * batch * size, size, 1, 0, size, matrix, zero_bias, grad_inputs, batch)
    end(matrix)
