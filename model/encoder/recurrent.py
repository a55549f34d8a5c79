"""A recurrent layer of the encoder: LSTM, dense, batch norm, ReLU."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from cortado.model.encoder.dropout import Dropout
from cortado.model.encoder.lstm import hidden_states


class LSTMState(NamedTuple):
    """What an LSTM remembers of each stream."""

    hidden: Tensor  # (S, H)
    cell: Tensor  # (S, H)


class RecurrentLayer(nn.Module):
    """LSTM, dense projection, batch norm and ReLU on (B, T, H)."""

    lookahead = 0

    def __init__(self, width_in: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.dropout = Dropout(0.0)  # a stage of training sets the share
        self.lstm = nn.LSTM(width_in, width, batch_first=True)
        with torch.no_grad():  # forget gates start open (Jozefowicz et al. 2015)
            self.lstm.all_weights[0][2][width : 2 * width] = 1
        self.dense = nn.Linear(width, width, bias=False)
        self.norm = nn.BatchNorm1d(width)

    def initial_state(self, streams: int) -> LSTMState:
        """Return zero states."""
        zeros = self.dense.weight.new_zeros(streams, self.width)
        return LSTMState(zeros, zeros)

    def forward(self, x: Tensor) -> Tensor:
        """Return (B, T, H) of whole (B, T, H_in) utterances."""
        weights, heard = self.lstm.all_weights[0], self.dropout(x)
        y = self.dense(hidden_states(heard, weights, self.training))
        return self.norm(y.flatten(0, 1)).view_as(y).relu()

    def step(self, x: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
        """Return (S, H) for the next (S, H_in) frame, and the new state."""
        hidden, cell = torch.lstm_cell(x, state, *self.lstm.all_weights[0])
        return self.norm(self.dense(hidden)).relu(), LSTMState(hidden, cell)
