"""A convolutional LSTM over frequency (Shi et al. 2015; Zhang et al. 2017 for speech).

The gates are 1x3 convolutions over frequency of the input and of the last hidden state. The
recurrence is one matrix product per frame; its backward pass is written out, because autograd
would keep a dozen small tensors a frame and spend most of the training step on them.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

WIDTH = 3  # frequencies seen by a gate


class ConvLSTMState(NamedTuple):
    """What the layer remembers of each stream."""

    hidden: Tensor  # (S, F, C)
    cell: Tensor  # (S, F, C)


def neighbourhoods(x: Tensor) -> Tensor:
    """Return (..., F, WIDTH * C): each frequency beside its neighbours."""
    x = nn.functional.pad(x, (0, 0, WIDTH // 2, WIDTH // 2))
    return torch.cat([x[..., k : x.shape[-2] - WIDTH + 1 + k, :] for k in range(WIDTH)], -1)


def from_neighbourhoods(grad: Tensor) -> Tensor:
    """Return (..., F, C) sums of what `neighbourhoods` copied from each entry: its transpose."""
    parts = grad.chunk(WIDTH, -1)
    total = parts[1].clone()
    total[..., :-1, :] += parts[0][..., 1:, :]
    total[..., 1:, :] += parts[2][..., :-1, :]
    return total


class Recurrence(torch.autograd.Function):
    """hidden_t, cell_t = LSTM gates of (inputs_t + neighbourhoods(hidden_{t-1}) @ weight)."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor) -> Tensor:
        """Return (T, B, F, C) hidden states of (T, B, F, 4 C) gate inputs, from zero state."""
        frames, batch, frequencies, width = inputs.shape
        channels = width // 4
        hiddens = inputs.new_zeros(frames + 1, batch, frequencies, channels)
        cells = inputs.new_zeros(frames + 1, batch, frequencies, channels)
        gates = torch.empty_like(inputs)
        for t in range(frames):
            torch.matmul(neighbourhoods(hiddens[t]), weight, out=gates[t])
            gate = gates[t].add_(inputs[t])
            gate[..., : 3 * channels].sigmoid_()
            gate[..., 3 * channels :].tanh_()
            i, f, o, g = gate.chunk(4, -1)
            torch.addcmul(f * cells[t], i, g, out=cells[t + 1])
            torch.mul(o, cells[t + 1].tanh(), out=hiddens[t + 1])
        ctx.save_for_backward(gates, cells, hiddens, weight)
        return hiddens[1:]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients with respect to the gate inputs and the weight."""
        gates, cells, hiddens, weight = ctx.saved_tensors
        frames = len(gates)
        channels = gates.shape[-1] // 4
        grad_gates = torch.empty_like(gates)
        grad_hidden = torch.zeros_like(cells[0])
        grad_cell = torch.zeros_like(cells[0])
        transposed = weight.t().contiguous()
        squashed = cells[1:].tanh()
        for t in reversed(range(frames)):
            grad_hidden += grads[0][t]
            i, f, o, g = gates[t].chunk(4, -1)
            grad_i, grad_f, grad_o, grad_g = grad_gates[t].chunk(4, -1)
            grad_cell.addcmul_(grad_hidden * o, 1 - squashed[t].square())
            torch.mul(grad_hidden, squashed[t], out=grad_o)
            torch.mul(grad_cell, g, out=grad_i)
            torch.mul(grad_cell, cells[t], out=grad_f)
            torch.mul(grad_cell * i, 1 - g.square(), out=grad_g)
            squash = gates[t][..., : 3 * channels]
            grad_gates[t][..., : 3 * channels] *= squash * (1 - squash)
            grad_cell *= f
            grad_hidden = from_neighbourhoods(grad_gates[t] @ transposed)
        last = neighbourhoods(hiddens[:-1]).flatten(0, 2)
        return grad_gates, last.t() @ grad_gates.flatten(0, 2)


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
