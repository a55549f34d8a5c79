"""The encoder of LSTMs alone (Raffel et al. 2017, appendix D.1.1): the paper's for TIMIT.

Every second state is dropped after the first and the second layer (Chan et al. 2016). Of two, the
later one is kept: it has seen more, and a stream has to wait for four frames in any case.
"""

from collections.abc import Sequence

from torch import Tensor, nn

from cortado.model.config import EncoderConfig
from cortado.model.encoder.dropout import Dropout
from cortado.model.encoder.lstm import LSTM
from cortado.model.features.framing import FRAMES_PER_STEP, PLANES
from cortado.model.layer import Layer, Serial, Stateless

HALVINGS = FRAMES_PER_STEP.bit_length() - 1  # 2: layers after which every second state is dropped


class Halving(Stateless):
    """The later one of every two frames of (B, T, H)."""

    ratio = 2
    lookahead = 1

    def forward(self, x: Tensor) -> Tensor:
        """Return (B, T / 2, H)."""
        return x[:, 1::2]


class LSTMEncoder(Serial):
    """Features (B, T, F, 3) to encoder frames (B, T / 4, H); one frame every 40 ms."""

    def __init__(self, config: EncoderConfig, bands: int) -> None:
        """Make the layers for features of F = `bands`."""
        super().__init__()
        inputs = [PLANES * bands] + [config.width] * (config.layers - 1)
        self.layers = nn.ModuleList(LSTM(n, config.width) for n in inputs)
        self.dropout = Dropout(0.0)  # of each layer's inputs and of the outputs
        self.halving = Halving()

    @property
    def chain(self) -> Sequence[Layer]:
        """The layers, each behind the dropout, and the halvings."""
        found: list[Layer] = []
        for number, layer in enumerate(self.layers, 1):
            found += [self.dropout, layer]  # type: ignore[list-item]
            found += [self.halving] if number <= HALVINGS else []
        return [*found, self.dropout]
