"""A recurrent layer of the encoder: LSTM, dense, batch norm, ReLU."""

from torch import Tensor, nn

from cortado.model.encoder.dropout import Dropout
from cortado.model.encoder.lstm import LSTM, LSTMState
from cortado.model.layer import Layer


class RecurrentLayer(Layer):
    """LSTM, dense projection, batch norm and ReLU on (B, T, ...), frame after frame flattened."""

    def __init__(self, width_in: int, width: int) -> None:
        super().__init__()
        self.dropout = Dropout(0.0)  # a stage of training sets the share
        self.lstm = LSTM(width_in, width)
        self.dense = nn.Linear(width, width, bias=False)
        self.norm = nn.BatchNorm1d(width)

    def initial_state(self, batch: int) -> LSTMState:
        """Return the LSTM's."""
        return self.lstm.initial_state(batch)

    def step(self, x: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
        """Return (S, T, H) for the next (S, T, ...) frames, and the new state."""
        hidden, after = self.lstm.step(self.dropout(x), state)
        y = self.dense(hidden)
        return self.norm(y.flatten(0, 1)).view_as(y).relu(), after
