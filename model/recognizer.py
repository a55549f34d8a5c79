"""The recogniser: features, encoder, decoder, and heads of letters and phones beside it."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from cortado.model.config import RecognizerConfig
from cortado.model.decoder.bahdanau import BahdanauDecoder
from cortado.model.decoder.ctc import CtcDecoder
from cortado.model.decoder.decoder import Decoder
from cortado.model.decoder.luong import LuongDecoder
from cortado.model.encoder.encoder import Encoder
from cortado.model.encoder.lstm_encoder import LSTMEncoder
from cortado.model.features.framing import SAMPLE_RATE, SAMPLES_PER_STEP, delay_steps
from cortado.model.features.log_mel import Features
from cortado.model.layer import Layer, Serial


class Recognizer(Serial):
    """Samples (B, N) to the symbols (B, N / 640, cap) that the decoder writes, -1 for none.

    The streaming encoder and the decoder are those that the configuration names; the default is
    MoChA (Chiu & Raffel 2018).
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
        self.phones = nn.Linear(width, config.phones) if config.phones else None

    @property
    def chain(self) -> Sequence[Layer]:
        """Features, encoder and decoder."""
        return self.features, self.encoder, self.decoder

    @property
    def lookahead_ms(self) -> int:
        """The look-ahead in milliseconds, besides the 25 ms window."""
        return self.lookahead * 1000 // SAMPLE_RATE

    @property
    def delay_steps(self) -> int:
        """Steps between the end of an encoder frame and the step that gives it."""
        return delay_steps(self.lookahead_ms)

    def encode_logmel(self, logmel: Tensor) -> Tensor:
        """Return (B, T / 4, H) encoder frames of whole (B, T, F) log-mel utterances."""
        return self.encoder(self.features.normalizer(logmel))

    def encode(self, samples: Tensor) -> Tensor:
        """Return (B, T', H) encoder frames of (B, N) samples of whole utterances."""
        if samples.shape[1] < SAMPLES_PER_STEP:
            return samples.new_zeros(len(samples), 0, self.config.encoder.width)
        return self.encoder(self.features(samples))

    def frame_mask(self, lengths: Tensor, frames: int) -> Tensor:
        """Return (B, T') true on the first `lengths` (B,) encoder frames."""
        return torch.arange(frames, device=lengths.device) < lengths.unsqueeze(1)
