"""The unidirectional conv-LSTM encoder (Chiu & Raffel 2018, appendix A; Zhang et al. 2017)."""

from typing import NamedTuple

from torch import Tensor, nn

from cortado.model.config import EncoderConfig as EncoderConfig
from cortado.model.encoder.conv_lstm import ConvLSTM, ConvLSTMState
from cortado.model.encoder.convolution import StreamingConv
from cortado.model.encoder.recurrent import LSTMState, RecurrentLayer
from cortado.model.features.framing import FRAMES_PER_STEP, MELS
from cortado.model.features.framing import FREQUENCIES as FREQUENCIES
from cortado.model.features.framing import PLANES as PLANES


class EncoderState(NamedTuple):
    """What the encoder remembers of each stream."""

    conv1: Tensor  # (S, 3, 1, F)
    conv2: Tensor  # (S, C, 1, F / 2)
    conv_lstm: ConvLSTMState
    conv3: Tensor  # (S, C, 2, F / 4); nothing without a third convolution
    layers: tuple[LSTMState, ...]


class Encoder(nn.Module):
    """Features (B, T, F, 3) to encoder frames (B, T / 4, H); one frame every 40 ms."""

    def __init__(self, config: EncoderConfig, bands: int = MELS) -> None:
        """Make the layers for features of F = `bands`.

        Raises:
            ValueError: they cannot be halved twice.
        """
        super().__init__()
        if bands % 4:
            raise ValueError(f"expected a multiple of 4 bands for convolutions, got {bands}")
        self.bands = bands
        channels, width = config.channels, config.width
        self.conv1 = StreamingConv(PLANES, channels, stride=2)
        self.conv2 = StreamingConv(channels, channels, stride=2)
        self.conv_lstm = ConvLSTM(channels, channels)
        self.third = config.third
        if config.third:
            self.conv3 = StreamingConv(channels, channels, stride=1)
        inputs = [channels * bands // 4] + [width] * (config.layers - 1)
        self.layers = nn.ModuleList(RecurrentLayer(n, width) for n in inputs)
        self.dropout = nn.Dropout(0.0)  # of the outputs

    @property
    def lookahead(self) -> int:
        """Feature frames that an encoder frame sees beyond its own first one."""
        frames, stride = 0, 1
        for conv in (self.conv1, self.conv2, *([self.conv3] if self.third else [])):
            frames += stride * conv.lookahead
            stride *= conv.stride
        return frames

    def initial_state(self, streams: int) -> EncoderState:
        """Return the state of streams that have heard nothing."""
        conv1 = self.conv1.initial_state(streams, self.bands)
        last = self.bands // 4  # frequencies
        return EncoderState(
            conv1,
            self.conv2.initial_state(streams, self.bands // 2),
            self.conv_lstm.initial_state(streams, last),
            self.conv3.initial_state(streams, last) if self.third else conv1[:, :0],
            tuple(layer.initial_state(streams) for layer in self.layers),  # type: ignore[operator]
        )

    def forward(self, features: Tensor) -> Tensor:
        """Return (B, T / 4, H) encoder frames of whole (B, T, F, 3) utterances."""
        x = self.conv2(self.conv1(features.permute(0, 3, 1, 2)))  # (B, C, T', F / 4)
        x = self.conv_lstm(x.permute(0, 2, 3, 1))  # (B, T', F / 4, C)
        if self.third:
            x = self.conv3(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        x = x.flatten(2)  # (B, T', F / 4 * C)
        for layer in self.layers:
            x = layer(x)
        encoded: Tensor = self.dropout(x)
        return encoded

    def step(self, features: Tensor, state: EncoderState) -> tuple[Tensor, EncoderState]:
        """Return the next (S, H) encoder frame of (S, 4, F, 3) features, and the new state."""
        if features.shape[1] != FRAMES_PER_STEP:
            raise ValueError(f"expected {FRAMES_PER_STEP} frames, got {features.shape[1]}")
        x, conv1 = self.conv1.step(features.permute(0, 3, 1, 2), state.conv1)
        x, conv2 = self.conv2.step(x, state.conv2)
        y, conv_lstm = self.conv_lstm.step(x[:, :, 0].transpose(1, 2), state.conv_lstm)
        conv3 = state.conv3
        if self.third:
            x, conv3 = self.conv3.step(y.transpose(1, 2).unsqueeze(2), conv3)
            y = x[:, :, 0].transpose(1, 2)
        h = y.flatten(1)  # (S, F / 4 * C)
        states = []
        for layer, layer_state in zip(self.layers, state.layers, strict=True):
            h, new = layer.step(h, layer_state)  # type: ignore[operator]
            states.append(new)
        return h, EncoderState(conv1, conv2, conv_lstm, conv3, tuple(states))
