"""A stage of a training run: its losses, learning rate and augmentation."""

from dataclasses import dataclass, field
from typing import Literal

from pydantic import PositiveFloat

from cortado.training.bounds import Count, Dropout, Share, Weight
from cortado.training.data.augment import Augmentation

NoisyWeights = Literal["recurrent", "all"]  # weights that have weight noise


@dataclass(frozen=True)
class Stage:
    """A part of the run with its own objective and learning rate."""

    name: str
    steps: Count  # updates
    ctc: Weight = 0.3  # weight of the CTC loss
    attention: Weight = 0.0  # weight of the decoder's cross-entropy; 0 trains the encoder alone
    stop: Weight = 0.0  # weight of the stops' cross-entropy along the CTC alignment
    eagerness: Weight = 1.0  # weight of a frame to stop at, against one to pass
    quantity: Weight = 0.0  # weight of the quantity loss |sum alpha - U| / U
    guide: Weight = 0.0  # weight of an offline attention's distance from the CTC alignment
    noise: Weight = 0.0  # standard deviation of the pre-sigmoid noise
    consistency: Weight = 0.0  # weight of the divergence between outputs for two augmented views
    corruption: Share = 0.0  # share of the decoder's input symbols replaced by random ones
    smoothing: Share = 0.0  # label smoothing of the decoder's cross-entropy
    neighbours: tuple[Weight, ...] = ()  # label smoothing over the symbols before and after
    text: Weight = 0.0  # weight of the decoder's cross-entropy on text alone
    states: Weight = 0.0  # weight of the cross-entropy of phones' tied states, frame by frame
    mmi: Weight = 0.0  # weight of the sequence criterion of phones, in place of their cross-entropy
    frozen_norm: bool = False  # batch norms with their running statistics, as in serving
    dropout: Dropout = 0.0  # share of the inputs of each recurrent layer that is left out
    weight_noise: Weight = 0.0  # standard deviation
    weight_noise_on: NoisyWeights = "recurrent"  # LSTMs and embeddings, or all weights
    max_seconds: PositiveFloat | None = (
        None  # longer utterances are left out; as the recipe if None
    )
    learning_rate: Weight = 1e-3
    final_learning_rate: Weight | None = None  # reached along a cosine; as the first if not given
    warmup: Count = 0  # updates
    cuts: tuple[Count, ...] = ()  # the stage's updates at which the rate is multiplied by `cut`
    cut: Weight = 0.1
    augmentation: Augmentation = field(default_factory=Augmentation)

    def __post_init__(self) -> None:
        """Check what the types cannot say.

        Raises:
            ValueError: a loss of the decoder although that does not learn; neighbours on one side,
                or that leave the symbol itself nothing.
        """
        for loss in ("quantity", "guide"):
            if getattr(self, loss) and not (self.attention or self.stop):
                raise ValueError(f"expected attention or stop above 0 beside {loss}, got neither")
        if len(self.neighbours) % 2:
            raise ValueError(f"expected neighbours on both sides, got {self.neighbours}")
        if sum(self.neighbours) >= 1:
            raise ValueError(f"expected neighbours of less than 1 in all, got {self.neighbours}")
