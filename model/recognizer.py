"""The recogniser: features, encoder, decoder, and a CTC head that helps to train them."""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from model.bahdanau import BahdanauDecoder
from model.ctc import CtcDecoder
from model.decoder import Decoder, DecoderConfig
from model.encoder import Encoder, EncoderConfig
from model.features import FRAMES_PER_STEP, HOP, SAMPLE_RATE, Features
from model.luong import LuongDecoder
from model.vocabulary import Vocabulary


@dataclass(frozen=True)
class RecognizerConfig:
    """Everything that fixes the recogniser's shape; the defaults are MoChA's for WSJ."""

    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    decoder: DecoderConfig = field(default_factory=DecoderConfig)


class Recognizer(nn.Module):
    """A streaming conv-LSTM encoder with the decoder that the configuration names.

    The default is MoChA (Chiu & Raffel 2018).
    """

    def __init__(self, config: RecognizerConfig) -> None:
        super().__init__()
        self.config = config
        self.features = Features()
        self.encoder = Encoder(config.encoder)
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
        return self.lookahead_frames * HOP * 1000 // SAMPLE_RATE

    @property
    def delay_steps(self) -> int:
        """Steps between the end of an encoder frame and the step that gives it."""
        return -(-(self.lookahead_frames - (FRAMES_PER_STEP - 1)) // FRAMES_PER_STEP)

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
