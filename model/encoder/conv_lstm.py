"""A convolutional LSTM over frequency (Shi et al. 2015; Zhang et al. 2017 for speech).

The gates are 1x3 convolutions over frequency of the input and of the last hidden state. The
recurrence is one matrix product per frame; it is compiled and its backward pass written out,
because a dozen small tensors a frame would cost more than the arithmetic.
"""

from typing import Any, NamedTuple

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cortado.model.compiled import mixed
from cortado.model.compiled.functions import FAST, sigmoid, tanh
from cortado.model.compiled.product import begin, end, product, put

WIDTH = 3  # frequencies seen by a gate
Array = NDArray[Any]


class ConvLSTMState(NamedTuple):
    """What the layer remembers of each stream."""

    hidden: Tensor  # (S, F, C)
    cell: Tensor  # (S, F, C)


def neighbourhoods(x: Tensor) -> Tensor:
    """Return (..., F, WIDTH * C): each frequency beside its neighbours."""
    x = nn.functional.pad(x, (0, 0, WIDTH // 2, WIDTH // 2))
    return torch.cat([x[..., k : x.shape[-2] - WIDTH + 1 + k, :] for k in range(WIDTH)], -1)


@numba.njit(nogil=True, fastmath=FAST, error_model="numpy", forceinline=True)
def _advance(
    x: Array, sums: Array, gates: Array, before: Array, cell: Array, hidden: Array
) -> None:
    """Set the gates (4 C,) of a frequency and what they make."""
    channels = len(cell)
    for k in range(3 * channels):
        gates[k] = sigmoid(x[k] + sums[k])
    for k in range(3 * channels, 4 * channels):
        gates[k] = tanh(x[k] + sums[k])
    i, forget = gates[:channels], gates[channels : 2 * channels]
    o, g = gates[2 * channels : 3 * channels], gates[3 * channels :]
    for c in range(channels):
        cell[c] = forget[c] * before[c] + i[c] * g[c]
    for c in range(channels):
        hidden[c] = o[c] * tanh(cell[c])


@numba.njit(nogil=True, fastmath=FAST, error_model="numpy", forceinline=True)
def _stored(values: Array, out: Array, start: int) -> None:
    """Store float32 in bf16 or float32."""
    taken = out[start : start + len(values)]
    for k in range(len(values)):
        put(taken, k, values[k])


@numba.njit(cache=True, nogil=True)
def _forth(
    inputs: Array,
    gates: Array,
    cells: Array,
    hiddens: Array,
    columns: Array,
    matrix: Array,
    nothing: Array,
    sums: Array,
) -> None:
    """Set the gates, cells and hidden states of all frames, and the columns made of these."""
    frames, batch, frequencies, channels = hiddens.shape
    k, n, flat = columns.shape[3], len(nothing), columns.ravel()
    rows, size = batch * frequencies, 4 * channels
    begin(matrix)
    for t in range(frames):
        product(flat, t * rows * k, k, 1, 0, k, matrix, nothing, sums, rows)
        for b in range(batch):
            after = columns[t + 1, b]
            after[0, :channels] = 0  # beyond the edges
            after[frequencies - 1, 2 * channels :] = 0
            for f in range(frequencies):
                start, hidden = (b * frequencies + f) * n, hiddens[t, b, f]
                own, x, cell = sums[start : start + size], inputs[t, b, f], cells[t + 1, b, f]
                _advance(x, own, gates[t, b, f], cells[t, b, f], cell, hidden)
                _stored(hidden, after[f], channels)
                if f > 0:
                    _stored(hidden, after[f - 1], 2 * channels)
                if f < frequencies - 1:
                    _stored(hidden, after[f + 1], 0)
    end(matrix)


@numba.njit(nogil=True, fastmath=FAST, error_model="numpy", forceinline=True)
def _retreat(
    total: Array, gates: Array, before: Array, cell: Array, carried: Array, out: Array
) -> None:
    """Store the gradient in a frequency's gates, from those in its hidden state and its cell."""
    channels = len(cell)
    i, forget = gates[:channels], gates[channels : 2 * channels]
    o, g = gates[2 * channels : 3 * channels], gates[3 * channels :]
    of_i, of_forget = out[:channels], out[channels : 2 * channels]
    of_o, of_g = out[2 * channels : 3 * channels], out[3 * channels :]
    for c in range(channels):
        squashed = tanh(cell[c])
        d = carried[c] + total[c] * o[c] * (1 - squashed * squashed)
        put(of_i, c, d * g[c] * i[c] * (1 - i[c]))
        put(of_forget, c, d * before[c] * forget[c] * (1 - forget[c]))
        put(of_o, c, total[c] * squashed * o[c] * (1 - o[c]))
        put(of_g, c, d * i[c] * (1 - g[c] * g[c]))
        carried[c] = d * forget[c]


@numba.njit(nogil=True, fastmath=FAST, error_model="numpy", forceinline=True)
def _added(given: Array, total: Array) -> None:
    for c in range(len(total)):
        total[c] += given[c]


@numba.njit(cache=True, nogil=True)
def _back(
    grads: Array,
    gates: Array,
    cells: Array,
    of_gates: Array,
    matrix: Array,
    nothing: Array,
    later: Array,
) -> None:
    """Set the gradients in the gates of all frames, before they were squashed."""
    frames, batch, frequencies, channels = grads.shape
    k, n, flat = of_gates.shape[3], len(nothing), of_gates.ravel()
    rows, carried = batch * frequencies, np.zeros(cells.shape[1:], np.float32)
    begin(matrix)
    for t in range(frames - 1, -1, -1):
        for b in range(batch):
            for f in range(frequencies):
                at, total = (b * frequencies + f) * n, grads[t, b, f]
                _added(later[at + channels : at + 2 * channels], total)
                if f < frequencies - 1:
                    _added(later[at + n : at + n + channels], total)
                if f > 0:
                    _added(later[at - n + 2 * channels : at - n + 3 * channels], total)
                before, cell = cells[t, b, f], cells[t + 1, b, f]
                _retreat(total, gates[t, b, f], before, cell, carried[b, f], of_gates[t, b, f])
        product(flat, t * rows * k, k, 1, 0, k, matrix, nothing, later, rows)
    end(matrix)


class Recurrence(torch.autograd.Function):
    """hidden_t, cell_t = LSTM gates of (inputs_t + neighbourhoods(hidden_{t-1}) @ weight)."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor) -> Tensor:
        """Return (T, B, F, C) hidden states of (T, B, F, 4 C) gate inputs, from zero state."""
        frames, batch, frequencies, width = inputs.shape
        channels, kind = width // 4, mixed.kind()
        matrix, nothing = mixed.matrix(weight, kind)
        columns = mixed.factors(kind, frames + 1, batch, frequencies, mixed.even(len(weight)))
        cells = mixed.floats(frames + 1, batch, frequencies, channels)
        gates, hiddens = np.empty(inputs.shape, np.float32), np.empty_like(cells[1:])
        given, room = mixed.numbers(inputs), mixed.sums(batch * frequencies, nothing)
        _forth(given, gates, cells, hiddens, columns, matrix, nothing, room)
        ctx.save_for_backward(weight)
        ctx.kept = kind, inputs.dtype, gates, cells, columns
        return torch.from_numpy(hiddens)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients with respect to the gate inputs and the weight."""
        (weight,), (kind, dtype, gates, cells, columns) = ctx.saved_tensors, ctx.kept
        matrix, nothing = mixed.matrix(weight.t(), kind)
        of_gates = mixed.factors(kind, *gates.shape)
        room = mixed.sums(gates.shape[1] * gates.shape[2], nothing)
        _back(mixed.numbers(grads[0], True), gates, cells, of_gates, matrix, nothing, room)
        found, before = mixed.tensor(of_gates), mixed.tensor(columns)[:-1, ..., : len(weight)]
        of_weight = before.flatten(0, 2).t() @ found.flatten(0, 2)
        return found.to(dtype), of_weight.float()


class ConvLSTM(nn.Module):
    """Convolutional LSTM on (B, T, F, C), with gates that see neighbouring frequencies."""

    lookahead = 0

    def __init__(self, channels_in: int, channels: int) -> None:
        super().__init__()
        self.channels = channels
        self.input = nn.Linear(WIDTH * channels_in, 4 * channels)
        self.recurrent = nn.Parameter(torch.empty(WIDTH * channels, 4 * channels))
        nn.init.uniform_(self.recurrent, -((WIDTH * channels) ** -0.5), (WIDTH * channels) ** -0.5)
        with torch.no_grad():  # forget gates start open (Jozefowicz et al. 2015)
            self.input.bias[channels : 2 * channels] = 1

    def initial_state(self, streams: int, frequencies: int) -> ConvLSTMState:
        """Return zero states."""
        zeros = self.recurrent.new_zeros(streams, frequencies, self.channels)
        return ConvLSTMState(zeros, zeros)

    def forward(self, x: Tensor) -> Tensor:
        """Return (B, T, F, C') hidden states of whole (B, T, F, C) utterances."""
        inputs = self.input(neighbourhoods(x.transpose(0, 1)))
        hidden: Tensor = Recurrence.apply(inputs, self.recurrent)  # type: ignore[no-untyped-call]
        return hidden.transpose(0, 1)

    def step(self, x: Tensor, state: ConvLSTMState) -> tuple[Tensor, ConvLSTMState]:
        """Return (S, F, C') for the next (S, F, C) frame, and the new state."""
        gates = self.input(neighbourhoods(x)) + neighbourhoods(state.hidden) @ self.recurrent
        squashed = gates[..., : 3 * self.channels].sigmoid()
        i, f, o = squashed.chunk(3, -1)
        cell = f * state.cell + i * gates[..., 3 * self.channels :].tanh()
        hidden = o * cell.tanh()
        return hidden, ConvLSTMState(hidden, cell)
