"""The convolutional LSTM on a CPU: one matrix product a frame, compiled, forth and back.

A dozen small tensors a frame would cost more than the arithmetic.
"""

from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cortado.model.compiled.cell import added, advance, retreat
from cortado.model.compiled.operations import mixed
from cortado.model.compiled.product import begin, end, product, put
from cortado.model.operation import definition, kernel

FEW = 4  # frames that are not worth it to lay out the weights
Array = NDArray[Any]


@kernel("conv_lstm", "CPU")
def conv_lstm(
    inputs: Tensor, weight: Tensor, hidden: Tensor, cell: Tensor
) -> tuple[Tensor, Tensor]:
    """Return what `encoder.conv_lstm` defines."""
    if len(inputs) < FEW or cell.dtype != torch.float32:
        return definition("conv_lstm")(inputs, weight, hidden, cell)
    found: tuple[Tensor, Tensor] = Recurrence.apply(inputs, weight, hidden, cell)  # type: ignore[no-untyped-call]
    return found


class Recurrence(torch.autograd.Function):
    """hidden_t, cell_t = LSTM gates of (inputs_t + neighbourhoods(hidden_{t-1}) @ weight)."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, weight: Tensor, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return (T, B, F, C) hidden states of (T, B, F, 4 C) gate inputs, and the last cell."""
        frames, batch, frequencies, width = inputs.shape
        channels, kind = width // 4, mixed.kind()
        matrix, nothing = mixed.matrix(weight, kind)
        columns = mixed.factors(kind, frames + 1, batch, frequencies, mixed.even(len(weight)))
        cells = mixed.floats(frames + 1, batch, frequencies, channels)
        cells[0] = mixed.numbers(cell)
        gates, hiddens = mixed.numbers(inputs, True), np.empty_like(cells[1:])
        first, sums = mixed.numbers(hidden), mixed.sums(batch * frequencies, nothing)
        _forth(gates, first, cells, hiddens, columns, matrix, nothing, sums)
        ctx.save_for_backward(weight)
        ctx.kept = kind, inputs.dtype, gates, cells, columns
        return torch.from_numpy(hiddens), torch.from_numpy(cells[-1])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the gradients in the gate inputs, the weight and the state before them."""
        (weight,), (kind, dtype, gates, cells, columns) = ctx.saved_tensors, ctx.kept
        matrix, nothing = mixed.matrix(weight.t(), kind)
        of_gates, carried = mixed.factors(kind, *gates.shape), mixed.numbers(grads[1], True)
        sums, of_hidden = mixed.sums(carried[..., 0].size, nothing), np.zeros_like(carried)
        of_hiddens = mixed.numbers(grads[0], True)
        _back(of_hiddens, of_hidden, gates, cells, of_gates, matrix, nothing, sums, carried)
        found, before = mixed.tensor(of_gates), mixed.tensor(columns)[:-1, ..., : len(weight)]
        of_weight = before.flatten(0, 2).t() @ found.flatten(0, 2)
        of_state = torch.from_numpy(of_hidden), torch.from_numpy(carried)
        return found.to(dtype), of_weight.float(), *of_state


@numba.njit(nogil=True, forceinline=True)
def _spread(hidden: Array, columns: Array) -> None:
    """Set the neighbourhoods (F, WIDTH C), bf16 or float32, of a frame's hidden states (F, C)."""
    frequencies, channels = hidden.shape
    columns[0, :channels] = 0  # beyond the edges
    columns[frequencies - 1, 2 * channels :] = 0
    for f in range(frequencies):
        _stored(hidden[f], columns[f], channels)
        if f > 0:
            _stored(hidden[f], columns[f - 1], 2 * channels)
        if f < frequencies - 1:
            _stored(hidden[f], columns[f + 1], 0)


@numba.njit(nogil=True, forceinline=True)
def _stored(values: Array, out: Array, start: int) -> None:
    """Store float32 in bf16 or float32."""
    taken = out[start : start + len(values)]
    for k in range(len(values)):
        put(taken, k, values[k])


@numba.njit(nogil=True, forceinline=True)
def _gathered(later: Array, row: int, f: int, frequencies: int, n: int, total: Array) -> None:
    """Add to (C,) the gradient in a hidden state: from its own row's columns and its neighbours'.

    `later` holds those in the columns of all rows, n apart; the state's is the row of frequency f.
    """
    at, channels = row * n, len(total)
    added(later[at + channels : at + 2 * channels], total)
    if f < frequencies - 1:
        added(later[at + n : at + n + channels], total)
    if f > 0:
        added(later[at - n + 2 * channels : at - n + 3 * channels], total)


@numba.njit(cache=True, nogil=True)
def _forth(
    gates: Array,
    first: Array,
    cells: Array,
    hiddens: Array,
    columns: Array,
    matrix: Array,
    nothing: Array,
    sums: Array,
) -> None:
    """Set the cells and hidden states of all frames, the columns, and the squashed gates."""
    frames, batch, frequencies, c = hiddens.shape
    k, n, flat = columns.shape[3], len(nothing), columns.ravel()
    rows = batch * frequencies
    for b in range(batch):
        _spread(first[b], columns[0, b])
    begin(matrix)
    for t in range(frames):
        product(flat, t * rows * k, k, 1, 0, k, matrix, nothing, sums, rows)
        for b in range(batch):
            for f in range(frequencies):
                start, gate = (b * frequencies + f) * n, gates[t, b, f]
                added(sums[start : start + 4 * c], gate)
                i, forget, o, g = gate[:c], gate[c : 2 * c], gate[2 * c : 3 * c], gate[3 * c :]
                cell, hidden = cells[t + 1, b, f], hiddens[t, b, f]
                advance(i, forget, g, o, cells[t, b, f], cell, hidden)
            _spread(hiddens[t, b], columns[t + 1, b])
    end(matrix)


@numba.njit(cache=True, nogil=True)
def _back(
    grads: Array,
    first: Array,
    gates: Array,
    cells: Array,
    of_gates: Array,
    matrix: Array,
    nothing: Array,
    later: Array,
    carried: Array,
) -> None:
    """Set the gradients in the gates of all frames, before they were squashed.

    In the end `first` holds that in the hidden state before them, and `carried` that in the cell.
    """
    frames, batch, frequencies, c = grads.shape
    k, n, flat = of_gates.shape[3], len(nothing), of_gates.ravel()
    rows = batch * frequencies
    begin(matrix)
    for t in range(frames - 1, -1, -1):
        for b in range(batch):
            for f in range(frequencies):
                total, gate, out = grads[t, b, f], gates[t, b, f], of_gates[t, b, f]
                _gathered(later, b * frequencies + f, f, frequencies, n, total)
                i, forget, o, g = gate[:c], gate[c : 2 * c], gate[2 * c : 3 * c], gate[3 * c :]
                of_i, of_f, of_o = out[:c], out[c : 2 * c], out[2 * c : 3 * c]
                before, cell, of_g = cells[t, b, f], cells[t + 1, b, f], out[3 * c :]
                retreat(total, i, forget, g, o, before, cell, carried[b, f], of_i, of_f, of_g, of_o)
        product(flat, t * rows * k, k, 1, 0, k, matrix, nothing, later, rows)
    for b in range(batch):
        for f in range(frequencies):
            _gathered(later, b * frequencies + f, f, frequencies, n, first[b, f])
    end(matrix)
