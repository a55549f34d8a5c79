"""The recogniser: features, encoder, decoder, and a CTC head that helps to train them."""

from typing import Any

import torch
from torch import Tensor, nn

from cortado.model.config import RecognizerConfig as RecognizerConfig
from cortado.model.decoder.bahdanau import BahdanauDecoder
from cortado.model.decoder.ctc import CtcDecoder
from cortado.model.decoder.decoder import Decoder
from cortado.model.decoder.luong import LuongDecoder
from cortado.model.encoder.conv_lstm_encoder import Encoder
from cortado.model.encoder.lstm_encoder import LSTMEncoder
from cortado.model.features.framing import delay_steps, lookahead_ms
from cortado.model.features.log_mel import Features


class Recognizer(nn.Module):
    """The streaming encoder and the decoder that the configuration names.

    The default is MoChA (Chiu & Raffel 2018).
    """

    def __init__(self, config: RecognizerConfig) -> None:
        super().__init__()
        self.config = config
        self.features = Features(config.features)
        self.encoder: Any  # Encoder or LSTMEncoder
        match config.encoder.kind:
            case "conv-lstm":
                self.encoder = Encoder(config.encoder, config.features.bands)
            case "lstm":
                self.encoder = LSTMEncoder(config.encoder, config.features.bands)
        width, symbols = config.encoder.width, len(config.vocabulary)
        self.decoder: Decoder
        match config.decoder.kind:
            case "bahdanau":
                self.decoder = BahdanauDecoder(config.decoder, width, symbols)
            case "luong":
                self.decoder = LuongDecoder(config.decoder, width, symbols)
        self.ctc = nn.Linear(width, symbols + 1)
        if config.decoder.kind == "ctc":
            self.decoder = CtcDecoder(self.ctc)

    @property
    def lookahead_frames(self) -> int:
        """Feature frames (10 ms) that an encoder frame sees beyond its own first one."""
        return self.features.lookahead + self.encoder.lookahead

    @property
    def lookahead_ms(self) -> int:
        """The look-ahead in milliseconds, besides the 25 ms window."""
        return lookahead_ms(self.lookahead_frames)

    @property
    def delay_steps(self) -> int:
        """Steps between the end of an encoder frame and the step that gives it."""
        return delay_steps(self.lookahead_frames)

    def encode_logmel(self, logmel: Tensor) -> Tensor:
        """Return (B, T / 4, H) encoder frames of whole (B, T, F) log-mel utterances."""
        encoded: Tensor = self.encoder(self.features.normalizer(logmel))
        return encoded

    def encode(self, samples: Tensor) -> Tensor:
        """Return (B, T', H) encoder frames of (B, N) samples of whole utterances."""
        encoded: Tensor = self.encoder(self.features(samples))
        return encoded

    def frame_mask(self, lengths: Tensor, frames: int) -> Tensor:
        """Return (B, T') true on the first `lengths` (B,) encoder frames."""
        return torch.arange(frames, device=lengths.device) < lengths.unsqueeze(1)
