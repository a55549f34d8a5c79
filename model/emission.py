"""The types of a recogniser's output: symbols with their frames, and characters with their times.

Nothing here imports torch: the fast backend serves without it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cortado.model.features.framing import STEP_SECONDS
from cortado.model.vocabulary import Vocabulary

CERTAIN = 1000  # thousandths
FLUSH_STEPS = 11  # steps of silence after the end of the input: look-ahead, then late stops


class Emission(NamedTuple):
    """A symbol that is committed: it is never revised."""

    symbol: int
    late: int = 0  # encoder frames from the symbol's own to the one that committed it
    confidence: int = CERTAIN  # thousandths


class Emissions(NamedTuple):
    """The emissions of one step of R streams, in order."""

    symbols: NDArray[np.int32]  # (R, n) -1 for none
    late: NDArray[np.int32]  # (R, n) lateness of each in encoder frames
    confidence: NDArray[np.int32]  # (R, n) of each, in thousandths; the greedy scan is certain

    @classmethod
    def nothing(cls, streams: int, most: int) -> "Emissions":
        """Return empty arrays for up to `most` emissions of each stream."""
        shape = (streams, most)
        symbols, confidence = np.full(shape, -1, np.int32), np.full(shape, CERTAIN, np.int32)
        return cls(symbols, np.zeros(shape, np.int32), confidence)

    @property
    def emitted(self) -> NDArray[np.bool_]:
        """Which (R,) streams emit anything."""
        return np.any(self.symbols >= 0, axis=1)

    def of(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> "Emissions":
        """Return the emissions of some of the streams, without empty columns."""
        used = (self.symbols[rows] >= 0).any(0)
        return Emissions(*(part[rows][:, used] for part in self))

    def followed(self, rows: NDArray[np.bool_], rest: "Emissions") -> "Emissions":
        """Return these emissions, followed in the (R,) chosen rows by those of `rest`."""
        if not rest.emitted.any():
            return self
        longer = Emissions.nothing(len(self.symbols), rest.symbols.shape[1])
        for part, more in zip(longer, rest, strict=True):
            part[rows] = more
        return Emissions(*(np.concatenate(pair, 1) for pair in zip(self, longer, strict=True)))

    def lists(self) -> Iterator[list[Emission]]:
        """Yield each stream's emissions."""
        for parts in zip(*(part.tolist() for part in self), strict=True):
            every = map(Emission._make, zip(*parts, strict=True))
            yield [one for one in every if one.symbol >= 0]


@dataclass(frozen=True)
class Character:
    """A character and its time."""

    text: str
    time: float  # seconds: the end of the encoder frame where the attention stopped
    late: float = 0.0  # seconds from then until it was committed
    confidence: float = 1.0  # probability that its word is right, by what was known of it


def to_characters(
    vocabulary: Vocabulary, symbol: int, time: float, late: float = 0.0, confidence: float = 1.0
) -> list[Character]:
    """Return the characters that a symbol stands for, all at its time in seconds."""
    return [Character(one, time, late, confidence) for one in vocabulary.texts[symbol]]


def step_time(step: int, delay_steps: int) -> float:
    """Return the time in seconds of a symbol at a stream's step, numbered from 0.

    It is the end of the encoder frame that the step computes, `delay_steps` before the step's end.
    """
    return seconds(max(step + 1 - delay_steps, 0))


def seconds(steps: int) -> float:
    """Return the duration of so many steps in seconds."""
    return round(steps * STEP_SECONDS, 3)
