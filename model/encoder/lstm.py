"""The LSTM: its cell, which encoders and decoders share, and the layer over whole sequences."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from cortado.model.layer import Layer
from cortado.model.operation import operation


class LSTMState(NamedTuple):
    """What an LSTM remembers of each stream."""

    hidden: Tensor  # (S, H); of a convolutional one (S, F, C)
    cell: Tensor  # of the same shape


def lstm_cell(i: Tensor, f: Tensor, g: Tensor, o: Tensor, cell: Tensor) -> LSTMState:
    """Return the next state, given the input, forget, cell and output gates before squashing."""
    cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return LSTMState(o.sigmoid() * cell.tanh(), cell)


@operation(
    "lstm(Tensor x, Tensor hidden, Tensor cell, Tensor[] weights) -> (Tensor, Tensor, Tensor)"
)
def lstm(
    x: Tensor, hidden: Tensor, cell: Tensor, weights: list[Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the hidden states (B, T, H) over (B, T, H_in), the last one and the last cell (B, H).

    By torch's own layer, in the precision of the weights under autocast too: cuDNN has no bf16 one.

    Args:
        x: the input.
        hidden: (B, H) before it.
        cell: (B, H) before it.
        weights: of inputs (4 H, H_in) and hidden states (4 H, H), and two biases (4 H,).
    """
    with torch.autocast(x.device.type, enabled=False):
        x = x.to(weights[0])
        if x.shape[1] == 1:
            hidden, cell = torch.lstm_cell(x[:, 0], (hidden, cell), *weights)
            return hidden.unsqueeze(1), hidden, cell
        before = [hidden.unsqueeze(0), cell.unsqueeze(0)]
        learns = torch.is_grad_enabled()
        y, hidden, cell = torch.lstm(x, before, weights, True, 1, 0.0, learns, False, True)
        return y, hidden[0], cell[0]


class LSTM(Layer, nn.LSTM):
    """An LSTM on (B, T, ...), frame after frame flattened; its weights are named as torch's are."""

    def __init__(self, width_in: int, width: int) -> None:
        nn.LSTM.__init__(self, width_in, width, batch_first=True)
        with torch.no_grad():  # forget gates start open (Jozefowicz et al. 2015)
            self.all_weights[0][2][width : 2 * width] = 1

    def initial_state(self, batch: int) -> LSTMState:
        """Return zero states."""
        zeros = self.all_weights[0][0].new_zeros(batch, self.hidden_size)
        return LSTMState(zeros, zeros)

    def step(self, x: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
        """Return the (S, T, H) hidden states over the next (S, T, ...), and the last state."""
        y, hidden, cell = lstm(x.flatten(2), *state, list(self.all_weights[0]))
        return y, LSTMState(hidden, cell)
