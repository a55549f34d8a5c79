"""The configuration of a recogniser: one frozen dataclass a component. Imports no torch."""

import math
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from cortado.model.attention.config import MONOTONIC, AttentionConfig
from cortado.model.features.framing import MELS
from cortado.model.vocabulary import Vocabulary

MAX_MELS = 256  # a window of 25 ms resolves no more
MAX_SIZE = 16_384  # of a layer: a file that asks for more would fill the memory
MAX_SYMBOLS_PER_STEP = 2  # 50 characters a second; nobody speaks as fast, a loop would


@dataclass(frozen=True)
class FeatureConfig:
    """What the features are."""

    # What frames are centred and scaled by. "running": a causal running mean, to stream; "fixed":
    # statistics that stand before a stream begins, as those of the training set; "speaker": those
    # of all that the speaker says, as in the papers (features/speaker.py), which nothing streams.
    normalisation: Literal["running", "fixed", "speaker"] = "running"
    mels: int = MELS  # bands
    energy: bool = False  # the logarithm of a frame's whole energy, as one more band

    def __post_init__(self) -> None:
        """Check what the types cannot say.

        Raises: ValueError for no band, or more than a window resolves.
        """
        if not 1 <= self.mels <= MAX_MELS:
            raise ValueError(f"expected 1 to {MAX_MELS} mel bands, got {self.mels}")

    @property
    def by_speaker(self) -> bool:
        """Whether they need statistics of each speaker."""
        return self.normalisation == "speaker"

    @property
    def bands(self) -> int:
        """F, the values of a frame."""
        return self.mels + self.energy


PLAIN = FeatureConfig()


def _check_sizes(**sizes: int) -> None:
    """Raise `ValueError` if one of the sizes is none."""
    for name, size in sizes.items():
        if not 1 <= size <= MAX_SIZE:
            raise ValueError(f"expected a {name} of 1 to {MAX_SIZE}, got {size}")


@dataclass(frozen=True)
class EncoderConfig:
    """An encoder and its sizes; the defaults are the paper's for WSJ."""

    channels: int = 32  # of every convolution and of the convolutional LSTM
    width: int = 256  # of every LSTM and dense layer
    layers: int = 3  # recurrent layers
    third: bool = True  # a third convolution, after the convolutional LSTM; not in Raffel's
    kind: Literal["conv-lstm", "lstm"] = "conv-lstm"  # "lstm" has width and layers alone

    def __post_init__(self) -> None:
        """Check what the types cannot say.

        Raises:
            ValueError: too few layers of LSTMs to drop frames between, or a size out of reason.
        """
        _check_sizes(channels=self.channels, width=self.width, layers=self.layers)
        if self.kind == "lstm" and self.layers < 2:
            raise ValueError(f"expected at least 2 layers of kind 'lstm', got {self.layers}")


class Confidence(NamedTuple):
    """What makes of a symbol's log-odds among hypotheses those that its word is right, in nats.

    `cortado calibrate` fits it to recordings. A checkpoint may have the first two numbers alone.
    """

    slope: float = 1.0  # of the log-odds among hypotheses
    offset: float = 0.0
    wait: float = 0.0  # times the square of the share of the longest wait that it took to commit it
    strangeness: float = 0.0  # for each nat of the voice's strangeness (search/voice.py)


UNCALIBRATED = Confidence()


@dataclass(frozen=True)
class DecoderConfig:
    """A decoder and its sizes; the defaults are MoChA's for WSJ."""

    width: int = 256  # of the LSTM
    embedding: int = 64
    attention: AttentionConfig = field(default_factory=AttentionConfig)
    kind: Literal["bahdanau", "luong", "ctc"] = "bahdanau"
    feeding: bool = True  # Luong's: the attentional state goes into the LSTM with the symbol
    direct: bool = False  # Bahdanau's: the LSTM alone goes to the output, without the context
    layers: int = 1  # of LSTMs, one on the other; the last one's state is the query and is read
    readout: Literal["linear", "maxout", "mlp"] = "linear"  # before the output layer
    beam: int = 8  # hypotheses that a beam search of whole utterances keeps
    ctc_weight: float = 0.0  # of the CTC head's log-probability in the search of streams; 0: none
    phone_weight: float = 0.0  # of the phone head's score of pronunciations in it; 0: none
    letters: float = 1.0  # of the decoder's choice of symbols in it, beside that of its stops
    deciding: float = 1.0  # of the decoder's own, beside phones, in the choice of what it commits
    confidence: Confidence = UNCALIBRATED  # of symbols that the search of streams commits

    def __post_init__(self) -> None:
        """Check what the types cannot say.

        Raises:
            ValueError: a monotonic attention whose general energy would be asked with zeros first,
                and so stop at the first frame for the first symbol, or never; a size out of
                reason; or numbers of the search that are none.
        """
        sizes = {"width": self.width, "embedding": self.embedding, "layers": self.layers}
        _check_sizes(**sizes, beam=self.beam)
        if not (0 <= self.ctc_weight < math.inf and all(map(math.isfinite, self.confidence))):
            got = f"{self.ctc_weight} and {self.confidence}"
            raise ValueError(
                f"expected a ctc_weight of at least 0 and a finite confidence, got {got}"
            )
        asked = self.attention
        if self.kind == "bahdanau" and asked.kind in MONOTONIC and asked.score == "general":
            raise ValueError(
                "expected a decoder of kind 'luong' with the general energy, whose first query in "
                f"Bahdanau's order is zero, got {self.kind!r}"
            )


@dataclass(frozen=True)
class RecognizerConfig:
    """Everything that fixes the recogniser's shape; the defaults are MoChA's for WSJ."""

    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    decoder: DecoderConfig = field(default_factory=DecoderConfig)
    features: FeatureConfig = field(default_factory=FeatureConfig)
    phones: int = 0  # outputs of a head that tells what phone is said, silence first; 0 for none


# What only searches read, by its dotted name: weights that fit one another may differ in it.
SEARCHED_BY = frozenset(
    f"decoder.{name}"
    for name in ("beam", "ctc_weight", "phone_weight", "letters", "deciding", "confidence")
)
