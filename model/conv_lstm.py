"""A convolutional LSTM over frequency (Shi et al. 2015; Zhang et al. 2017 for speech).

The gates are 1x3 convolutions over frequency of the input and of the last hidden state. The
recurrence is one matrix product per frame; what lies around it is compiled and its backward pass
written out, because a dozen small tensors a frame would cost more than the arithmetic.
"""

from typing import Any, NamedTuple

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from model.kernels import FAST, sigmoid, tanh

WIDTH = 3  # frequencies seen by a gate
Array = NDArray[np.float32] | NDArray[np.float64]


class ConvLSTMState(NamedTuple):
    """What the layer remembers of each stream."""

    hidden: Tensor  # (S, F, C)
    cell: Tensor  # (S, F, C)


def neighbourhoods(x: Tensor) -> Tensor:
    """Return (..., F, WIDTH * C): each frequency beside its neighbours."""
    x = nn.functional.pad(x, (0, 0, WIDTH // 2, WIDTH // 2))
    return torch.cat([x[..., k : x.shape[-2] - WIDTH + 1 + k, :] for k in range(WIDTH)], -1)


@numba.njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _advance(
    inputs: Array, gates: Array, before: Array, cell: Array, hidden: Array, columns: Array
) -> None:
    """Squash the gates (B, F, 4 C) in place, update cell and hidden, lay out the next columns."""
    batch, frequencies, channels = cell.shape
    for b in range(batch):
        for f in range(frequencies):
            gate, x = gates[b, f], inputs[b, f]
            for k in range(3 * channels):
                gate[k] = sigmoid(gate[k] + x[k])
            for k in range(3 * channels, 4 * channels):
                gate[k] = tanh(gate[k] + x[k])
            i, forget = gate[:channels], gate[channels : 2 * channels]
            o, g = gate[2 * channels : 3 * channels], gate[3 * channels :]
            for c in range(channels):
                cell[b, f, c] = forget[c] * before[b, f, c] + i[c] * g[c]
            for c in range(channels):
                hidden[b, f, c] = o[c] * tanh(cell[b, f, c])
        for f in range(frequencies):
            columns[b, f, channels : 2 * channels] = hidden[b, f]
            if f > 0:
                columns[b, f, :channels] = hidden[b, f - 1]
            if f < frequencies - 1:
                columns[b, f, 2 * channels :] = hidden[b, f + 1]


@numba.njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _retreat(
    grad: Array,
    columns: Array,
    gates: Array,
    before: Array,
    cell: Array,
    grad_cell: Array,
    grad_gates: Array,
) -> None:
    """Form the gates' gradients from those of hidden and of the columns made of it."""
    batch, frequencies, channels = cell.shape
    total = np.empty(channels, cell.dtype)
    for b in range(batch):
        for f in range(frequencies):
            total[:] = grad[b, f] + columns[b, f, channels : 2 * channels]
            if f < frequencies - 1:
                total += columns[b, f + 1, :channels]
            if f > 0:
                total += columns[b, f - 1, 2 * channels :]
            for c in range(channels):
                i, forget = gates[b, f, c], gates[b, f, channels + c]
                o, g = gates[b, f, 2 * channels + c], gates[b, f, 3 * channels + c]
                squashed = tanh(cell[b, f, c])
                d = grad_cell[b, f, c] + total[c] * o * (1 - squashed * squashed)
                grad_gates[b, f, c] = d * g * i * (1 - i)
                grad_gates[b, f, channels + c] = d * before[b, f, c] * forget * (1 - forget)
                grad_gates[b, f, 2 * channels + c] = total[c] * squashed * o * (1 - o)
                grad_gates[b, f, 3 * channels + c] = d * i * (1 - g * g)
                grad_cell[b, f, c] = d * forget


class Recurrence(torch.autograd.Function):
    """hidden_t, cell_t = LSTM gates of (inputs_t + neighbourhoods(hidden_{t-1}) @ weight)."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor) -> Tensor:
        """Return (T, B, F, C) hidden states of (T, B, F, 4 C) gate inputs, from zero state."""
        frames, batch, frequencies, width = inputs.shape
        channels = width // 4
        hiddens = inputs.new_empty(frames, batch, frequencies, channels)
        cells = inputs.new_zeros(frames + 1, batch, frequencies, channels)
        columns = inputs.new_zeros(frames + 1, batch, frequencies, WIDTH * channels)
        gates = torch.empty_like(inputs)
        arrays = [x.numpy() for x in (inputs, gates, cells, hiddens, columns)]
        rows, outs = columns.flatten(1, 2), gates.flatten(1, 2)
        for t in range(frames):
            torch.mm(rows[t], weight, out=outs[t])
            x, gate, cell, hidden, column = arrays
            _advance(x[t], gate[t], cell[t], cell[t + 1], hidden[t], column[t + 1])
        ctx.save_for_backward(gates, cells, columns, weight)
        return hiddens

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients with respect to the gate inputs and the weight."""
        gates, cells, columns, weight = ctx.saved_tensors
        grad_gates = torch.empty_like(gates)
        grad_cell = torch.zeros_like(cells[0])
        grad_columns = torch.zeros_like(columns[0])
        transposed = weight.t().contiguous()
        grad, gate, cell = grads[0].contiguous().numpy(), gates.numpy(), cells.numpy()
        grad_gate, rows = grad_gates.numpy(), grad_gates.flatten(1, 2)
        carried, later = grad_cell.numpy(), grad_columns.numpy()
        for t in reversed(range(len(gates))):
            _retreat(grad[t], later, gate[t], cell[t], cell[t + 1], carried, grad_gate[t])
            torch.mm(rows[t], transposed, out=grad_columns.flatten(0, 1))
        return grad_gates, columns[:-1].flatten(0, 2).t() @ grad_gates.flatten(0, 2)


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
        inputs = self.input(neighbourhoods(x)).transpose(0, 1).float().contiguous()
        with torch.autocast(x.device.type, enabled=False):
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
