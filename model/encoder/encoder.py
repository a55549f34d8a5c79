"""The unidirectional conv-LSTM encoder (Chiu & Raffel 2018, appendix A; Zhang et al. 2017)."""

from collections.abc import Sequence

from torch import nn

from cortado.model.config import EncoderConfig
from cortado.model.encoder.conv_lstm import ConvLSTM
from cortado.model.encoder.convolution import Convolution
from cortado.model.encoder.dropout import Dropout
from cortado.model.encoder.recurrent import RecurrentLayer
from cortado.model.features.framing import MELS, PLANES
from cortado.model.layer import Layer, Serial


class Encoder(Serial):
    """Features (B, T, F, 3) to encoder frames (B, T / 4, H); one frame every 40 ms."""

    def __init__(self, config: EncoderConfig, bands: int = MELS) -> None:
        """Make the layers for features of F = `bands`.

        Raises: ValueError where they cannot be halved twice.
        """
        super().__init__()
        if bands % 4:
            raise ValueError(f"expected a multiple of 4 bands for convolutions, got {bands}")
        channels, width = config.channels, config.width
        self.conv1 = Convolution(PLANES, channels, 2, bands)
        self.conv2 = Convolution(channels, channels, 2, bands // 2)
        self.conv_lstm = ConvLSTM(channels, channels, bands // 4)
        self.third = config.third
        if config.third:
            self.conv3 = Convolution(channels, channels, 1, bands // 4)
        inputs = [channels * bands // 4] + [width] * (config.layers - 1)
        self.layers = nn.ModuleList(RecurrentLayer(n, width) for n in inputs)
        self.dropout = Dropout(0.0)  # of the outputs

    @property
    def chain(self) -> Sequence[Layer]:
        """Convolutions around the convolutional LSTM, then the recurrent layers."""
        third = [self.conv3] if self.third else []
        return [self.conv1, self.conv2, self.conv_lstm, *third, *self.layers, self.dropout]
