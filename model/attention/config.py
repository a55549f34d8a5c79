"""Which attention a decoder has, and its sizes: `[model.decoder.attention]` of a recipe."""

from dataclasses import dataclass
from math import inf
from typing import Literal

Kind = Literal["mocha", "monotonic", "matcha", "soft", "local-m", "local-p", "none"]
Score = Literal["additive", "general", "dot", "concat", "location"]

BIAS = 3e38  # the most that 32 bits can hold
MONOTONIC: tuple[Kind, ...] = ("mocha", "monotonic", "matcha")
SCORES: dict[Kind, tuple[Score, ...]] = {
    "mocha": ("additive", "general"),
    "monotonic": ("additive", "general"),
    "matcha": ("additive", "general"),
    "soft": ("additive", "general", "dot", "concat", "location"),
    "local-m": ("additive", "general", "dot", "concat"),
    "local-p": ("additive", "general", "dot", "concat"),
    "none": ("additive",),  # which it does not have
}


@dataclass(frozen=True)
class AttentionConfig:
    """An attention, its sizes and initial values; the default is MoChA as for WSJ, r apart."""

    width: int = 128  # d, of additive energies and of what predicts the position of local-p
    chunk: int = 2  # w of MoChA: encoder frames that a symbol attends to; 1 is hard monotonic
    bias: float = -1.0  # r, initial bias of the monotonic energy; the paper's -4 wants more data
    kind: Kind = "mocha"
    score: Score = "additive"  # normalised, with g and r, where the attention is monotonic
    window: int = 10  # D of local-m and local-p: encoder frames on each side of the position
    stride: float = 1.0  # of local-m: encoder frames that the position moves on with each symbol
    positions: int = 1000  # of the location score: encoder frames that it can tell apart
    span: int = 100  # of MAtChA in serving: frames since the last stop that it can go back to

    def __post_init__(self) -> None:
        """Check what the types cannot say.

        Raises: ValueError for an attention that there is not, a score that it has no use for, or a
        number that cannot be meant.
        """
        if self.kind not in SCORES:
            raise ValueError(f"expected a kind among {', '.join(SCORES)}, got {self.kind!r}")
        if self.score not in SCORES[self.kind]:
            fitting = ", ".join(SCORES[self.kind])
            raise ValueError(f"expected a score of {self.kind!r} among {fitting}, got {self.score}")
        for name in ("width", "chunk", "window", "positions", "span"):
            if getattr(self, name) < 1:
                raise ValueError(f"expected a {name} of at least 1, got {getattr(self, name)}")
        if not abs(self.bias) <= BIAS:
            raise ValueError(f"expected a bias from -{BIAS:g} to {BIAS:g}, got {self.bias}")
        if not 0 < self.stride < inf:
            raise ValueError(f"expected a stride above 0, got {self.stride}")
