"""A convolutional LSTM over frequency (Shi et al. 2015; Zhang et al. 2017 for speech).

The gates are 1x3 convolutions over frequency of the input and of the last hidden state.
"""

import torch
from torch import Tensor, nn

from cortado.model.encoder.lstm import LSTMState, lstm_cell
from cortado.model.layer import Layer
from cortado.model.operation import operation

WIDTH = 3  # frequencies seen by a gate


def neighbourhoods(x: Tensor) -> Tensor:
    """Return (..., F, WIDTH * C): each frequency beside its neighbours."""
    x = nn.functional.pad(x, (0, 0, WIDTH // 2, WIDTH // 2))
    return torch.cat([x[..., k : x.shape[-2] - WIDTH + 1 + k, :] for k in range(WIDTH)], -1)


@operation(
    "conv_lstm(Tensor inputs, Tensor weight, Tensor hidden, Tensor cell) -> (Tensor, Tensor)"
)
def conv_lstm(
    inputs: Tensor, weight: Tensor, hidden: Tensor, cell: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the hidden states (T, B, F, C) and the last cell (B, F, C).

    The gates are inputs_t + neighbourhoods(hidden_{t-1}) @ weight, in the order i, f, o, g.

    Args:
        inputs: (T, B, F, 4 C) what the frames give to the gates.
        weight: (WIDTH * C, 4 C).
        hidden: (B, F, C) before them.
        cell: (B, F, C) before them.
    """
    hiddens = []
    for given in inputs.unbind():
        gates = given.to(cell) + (neighbourhoods(hidden) @ weight).to(cell)
        i, f, o, g = gates.chunk(4, -1)
        hidden, cell = lstm_cell(i, f, g, o, cell)
        hiddens.append(hidden)
    return torch.stack(hiddens), cell


class ConvLSTM(Layer):
    """Convolutional LSTM on (B, T, F, C), with gates that see neighbouring frequencies."""

    def __init__(self, channels_in: int, channels: int, frequencies: int) -> None:
        super().__init__()
        self.channels, self.frequencies = channels, frequencies
        self.input = nn.Linear(WIDTH * channels_in, 4 * channels)
        self.recurrent = nn.Parameter(torch.empty(WIDTH * channels, 4 * channels))
        nn.init.uniform_(self.recurrent, -((WIDTH * channels) ** -0.5), (WIDTH * channels) ** -0.5)
        with torch.no_grad():  # forget gates start open (Jozefowicz et al. 2015)
            self.input.bias[channels : 2 * channels] = 1

    def initial_state(self, batch: int) -> LSTMState:
        """Return zero states."""
        zeros = self.recurrent.new_zeros(batch, self.frequencies, self.channels)
        return LSTMState(zeros, zeros)

    def step(self, x: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
        """Return (S, T, F, C') hidden states of the next (S, T, F, C) frames, and the new state."""
        inputs = self.input(neighbourhoods(x.transpose(0, 1)))
        hidden, cell = conv_lstm(inputs, self.recurrent, *state)
        return hidden.transpose(0, 1), LSTMState(hidden[-1], cell)
