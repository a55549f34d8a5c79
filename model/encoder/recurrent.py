"""A recurrent layer of the encoder: LSTM, dense, batch norm, ReLU."""

from torch import Tensor, cat, nn

from cortado.model.encoder.dropout import Dropout
from cortado.model.encoder.lstm import LSTM, LSTMState
from cortado.model.layer import Layer


class RecurrentLayer(Layer):
    """LSTM, dense projection, batch norm and ReLU on (B, T, ...), frame after frame flattened.

    With `ahead`, the projection of a frame sees the LSTM's next frame as well, a convolution over
    two frames (as the look-ahead convolution of Amodei et al. 2016, but with whole matrices).
    """

    def __init__(self, width_in: int, width: int, ahead: bool = False) -> None:
        super().__init__()
        self.lookahead = int(ahead)
        self.dropout = Dropout(0.0)  # a stage of training sets the share
        self.lstm = LSTM(width_in, width)
        self.dense = nn.Linear((1 + self.lookahead) * width, width, bias=False)
        self.norm = nn.BatchNorm1d(width)

    def initial_state(self, batch: int) -> LSTMState:
        """Return the LSTM's."""
        return self.lstm.initial_state(batch)

    def step(self, x: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
        """Return (S, T, H) for the next (S, T, ...) frames, and the new state."""
        hidden, after = self.lstm.step(self.dropout(x), state)
        if self.lookahead:
            own = cat([state.hidden.unsqueeze(1).to(hidden), hidden[:, :-1]], 1)
            hidden = cat([own, hidden], 2)
        y = self.dense(hidden)
        return self.norm(y.flatten(0, 1)).view_as(y).relu(), after
