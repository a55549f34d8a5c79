"""The convolutional LSTM on a CPU: one matrix product a frame, compiled, forward and backward.

A dozen small tensors a frame would cost more than the arithmetic.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from cortado.model.arrays import Array
from cortado.model.compiled.cell import add_to, backward_cell, forward_cell
from cortado.model.compiled.jit import cached_njit, uncounted
from cortado.model.compiled.operations import mixed
from cortado.model.compiled.product import begin, end, product, stored
from cortado.model.operation import definition, kernel

MIN_FRAMES = 4  # fewer are not worth packing the weights


@kernel("conv_lstm", "CPU")
def conv_lstm(
    inputs: Tensor, weight: Tensor, hidden: Tensor, cell: Tensor
) -> tuple[Tensor, Tensor]:
    """Return what `encoder.conv_lstm` defines."""
    if len(inputs) < MIN_FRAMES or cell.dtype != torch.float32:
        return definition("conv_lstm")(inputs, weight, hidden, cell)
    return Recurrence.apply(inputs, weight, hidden, cell)  # type: ignore[no-untyped-call]


class Recurrence(torch.autograd.Function):
    """hidden_t, cell_t = LSTM gates of (inputs_t + neighbourhoods(hidden_{t-1}) @ weight)."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, weight: Tensor, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return (T, B, F, C) hidden states of (T, B, F, 4 C) gate inputs, and the last cell."""
        frames, batch, frequencies, width = inputs.shape
        channels, kind = width // 4, mixed.kind()
        matrix, zero_bias = mixed.matrix(weight, kind)
        columns = mixed.factors(kind, frames + 1, batch, frequencies, mixed.even(len(weight)))
        cells = np.empty((frames + 1, batch, frequencies, channels), np.float32)
        cells[0] = mixed.numbers(cell)
        gates, hiddens = mixed.numbers(inputs, True), np.empty_like(cells[1:])
        first, sums = mixed.numbers(hidden), mixed.sums(batch * frequencies, zero_bias)
        _forward(gates, first, cells, hiddens, columns, matrix, zero_bias, sums)
        ctx.save_for_backward(weight)
        ctx.stored = kind, inputs.dtype, gates, cells, columns
        return torch.from_numpy(hiddens), torch.from_numpy(cells[-1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the gradients in the gate inputs, the weight and the state before them."""
        (weight,), (kind, dtype, gates, cells, columns) = ctx.saved_tensors, ctx.stored
        matrix, zero_bias = mixed.matrix(weight.t(), kind)
        grad_gates, grad_cell = mixed.factors(kind, *gates.shape), mixed.numbers(grads[1], True)
        sums, grad_hidden = mixed.sums(grad_cell[..., 0].size, zero_bias), np.zeros_like(grad_cell)
        grad_hiddens = mixed.numbers(grads[0], True)
        _backward(
            grad_hiddens, grad_hidden, gates, cells, grad_gates, matrix, zero_bias, sums, grad_cell
        )
        found, previous = mixed.tensor(grad_gates), mixed.tensor(columns)[:-1, ..., : len(weight)]
        grad_weight = previous.flatten(0, 2).t() @ found.flatten(0, 2)
        grad_state = torch.from_numpy(grad_hidden), torch.from_numpy(grad_cell)
        return found.to(dtype), grad_weight.float(), *grad_state


@uncounted(forceinline=True)
def _neighbourhoods(hidden: Array, columns: Array) -> None:
    """Set the neighbourhoods (F, WIDTH C), bf16 or float32, of a frame's hidden states (F, C)."""
    frequencies, channels = hidden.shape
    columns[0, :channels] = 0  # beyond the edges
    columns[frequencies - 1, 2 * channels :] = 0
    for f in range(frequencies):
        stored(hidden[f], 0, columns[f, channels : 2 * channels])
        if f > 0:
            stored(hidden[f], 0, columns[f - 1, 2 * channels : 3 * channels])
        if f < frequencies - 1:
            stored(hidden[f], 0, columns[f + 1, :channels])


@uncounted(forceinline=True)
def _add_neighbours(
    grad_inputs: Array, row: int, f: int, frequencies: int, n: int, total: Array
) -> None:
    """Add to (C,) the gradient in a hidden state: from its own row's columns and its neighbours'.

    `grad_inputs` holds those in the columns of all rows, n apart; `row` is that of frequency f.
    """
    at, channels = row * n, len(total)
    add_to(grad_inputs[at + channels : at + 2 * channels], total)
    if f < frequencies - 1:
        add_to(grad_inputs[at + n : at + n + channels], total)
    if f > 0:
        add_to(grad_inputs[at - n + 2 * channels : at - n + 3 * channels], total)


@cached_njit()
def _forward(
    gates: Array,
    first: Array,
    cells: Array,
    hiddens: Array,
    columns: Array,
    matrix: Array,
    zero_bias: Array,
    sums: Array,
) -> None:
    """Set the cells and hidden states of all frames, the columns, and the gates' nonlinearities."""
    frames, batch, frequencies, c = hiddens.shape
    k, n, flat = columns.shape[3], len(zero_bias), columns.ravel()
    rows = batch * frequencies
    for b in range(batch):
        _neighbourhoods(first[b], columns[0, b])
    begin(matrix)
    for t in range(frames):
        product(flat, t * rows * k, k, 1, 0, k, matrix, zero_bias, sums, rows)
        for b in range(batch):
            for f in range(frequencies):
                start, gate = (b * frequencies + f) * n, gates[t, b, f]
                add_to(sums[start : start + 4 * c], gate)
                i, forget, o, g = gate[:c], gate[c : 2 * c], gate[2 * c : 3 * c], gate[3 * c :]
                cell, hidden = cells[t + 1, b, f], hiddens[t, b, f]
                forward_cell(i, forget, g, o, cells[t, b, f], cell, hidden)
            _neighbourhoods(hiddens[t, b], columns[t + 1, b])
    end(matrix)


@cached_njit()
def _backward(
    grads: Array,
    first: Array,
    gates: Array,
    cells: Array,
    grad_gates: Array,
    matrix: Array,
    zero_bias: Array,
    grad_inputs: Array,
    grad_cell: Array,
) -> None:
    """Set the gradients in the gates of all frames, before their nonlinearities.

    At the end `first` has the gradient in the initial hidden state, `grad_cell` in the cell.
    """
    frames, batch, frequencies, c = grads.shape
    k, n, flat = grad_gates.shape[3], len(zero_bias), grad_gates.ravel()
    rows = batch * frequencies
    begin(matrix)
    for t in range(frames - 1, -1, -1):
        for b in range(batch):
            for f in range(frequencies):
                total, gate, out = grads[t, b, f], gates[t, b, f], grad_gates[t, b, f]
                _add_neighbours(grad_inputs, b * frequencies + f, f, frequencies, n, total)
                i, forget, o, g = gate[:c], gate[c : 2 * c], gate[2 * c : 3 * c], gate[3 * c :]
                grad_i, grad_f, grad_o = out[:c], out[c : 2 * c], out[2 * c : 3 * c]
                previous, cell, grad_g = cells[t, b, f], cells[t + 1, b, f], out[3 * c :]
                backward_cell(
                    total,
                    i,
                    forget,
                    g,
                    o,
                    previous,
                    cell,
                    grad_cell[b, f],
                    grad_i,
                    grad_f,
                    grad_g,
                    grad_o,
                )
        product(flat, t * rows * k, k, 1, 0, k, matrix, zero_bias, grad_inputs, rows)
    for b in range(batch):
        for f in range(frequencies):
            _add_neighbours(grad_inputs, b * frequencies + f, f, frequencies, n, first[b, f])
    end(matrix)
