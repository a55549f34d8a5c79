"""The encoder of LSTMs alone (Raffel et al. 2017, appendix D.1.1): the paper's for TIMIT.

Every second state is dropped after the first and the second layer (Chan et al. 2016). Of two, the
later one is kept: it has heard more, and a stream has to wait for four frames in any case.
"""

from typing import TypeAlias

import torch
from torch import Tensor, nn

from cortado.model.encoder.conv_lstm_encoder import PLANES, EncoderConfig
from cortado.model.encoder.dropout import Dropout
from cortado.model.encoder.recurrent import LSTMState
from cortado.model.features.log_mel import FRAMES_PER_STEP

HALVINGS = FRAMES_PER_STEP.bit_length() - 1  # 2: layers after which every second state is dropped

LSTMEncoderState: TypeAlias = tuple[LSTMState, ...]  # of each layer


class LSTMEncoder(nn.Module):
    """Features (B, T, F, 3) to encoder frames (B, T / 4, H); one frame every 40 ms."""

    lookahead = FRAMES_PER_STEP - 1  # a frame is the state at the last of its feature frames

    def __init__(self, config: EncoderConfig, bands: int) -> None:
        """Make the layers for features of F = `bands`."""
        super().__init__()
        self.width = config.width
        inputs = [PLANES * bands] + [config.width] * (config.layers - 1)
        lstms = [nn.LSTM(n, config.width, batch_first=True) for n in inputs]
        with torch.no_grad():  # forget gates start open (Jozefowicz et al. 2015)
            for lstm in lstms:
                lstm.all_weights[0][2][config.width : 2 * config.width] = 1
        self.layers = nn.ModuleList(lstms)
        self.dropout = Dropout(0.0)  # of each layer's inputs and of the outputs

    def initial_state(self, streams: int) -> LSTMEncoderState:
        """Return the state of streams that have heard nothing."""
        zeros = next(self.parameters()).new_zeros(streams, self.width)
        return (LSTMState(zeros, zeros),) * len(self.layers)

    def forward(self, features: Tensor) -> Tensor:
        """Return (B, T / 4, H) encoder frames of whole (B, T, F, 3) utterances."""
        return self._encode(features, self.initial_state(len(features)))[0]

    def step(self, features: Tensor, state: LSTMEncoderState) -> tuple[Tensor, LSTMEncoderState]:
        """Return the next (S, H) encoder frame of (S, 4, F, 3) features, and the new state."""
        if features.shape[1] != FRAMES_PER_STEP:
            raise ValueError(f"expected {FRAMES_PER_STEP} frames, got {features.shape[1]}")
        encoded, state = self._encode(features, state)
        return encoded[:, 0], state

    def _encode(self, features: Tensor, state: LSTMEncoderState) -> tuple[Tensor, LSTMEncoderState]:
        x, states = features.flatten(2), []
        for number, (lstm, before) in enumerate(zip(self.layers, state, strict=True), 1):
            x, (hidden, cell) = lstm(self.dropout(x), tuple(part.unsqueeze(0) for part in before))
            states.append(LSTMState(hidden[0], cell[0]))
            if number <= HALVINGS:
                x = x[:, 1::2]
        return self.dropout(x), tuple(states)
