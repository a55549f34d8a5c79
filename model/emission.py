"""What a recogniser emits: symbols with the frames in which they were heard, and their characters.

Nothing here needs torch: serving with the fast backend does without it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cortado.model.features.framing import STEP_SECONDS
from cortado.model.vocabulary import Vocabulary

FLUSH_STEPS = 8  # steps of silence after the end of the input: look-ahead, then late stops


class Emission(NamedTuple):
    """A symbol that is committed: it is never revised."""

    symbol: int
    late: int = 0  # encoder frames from the one in which it was heard to its commitment


class Emissions(NamedTuple):
    """What one step of R streams emits, in order. A confidence would be one field more."""

    symbols: NDArray[np.int32]  # (R, n) -1 for none
    late: NDArray[np.int32]  # (R, n) encoder frames since each was heard

    @classmethod
    def nothing(cls, streams: int, most: int) -> "Emissions":
        """Return room for `most` emissions of each stream, with none in it."""
        shape = (streams, most)
        return cls(np.full(shape, -1, np.int32), np.zeros(shape, np.int32))

    @property
    def emitted(self) -> NDArray[np.bool_]:
        """Which (R,) streams emit anything."""
        found: NDArray[np.bool_] = np.any(self.symbols >= 0, axis=1)
        return found

    def of(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> "Emissions":
        """Return the emissions of some of the streams, in as few columns as hold them."""
        symbols, late = self.symbols[rows], self.late[rows]
        used = (symbols >= 0).any(0)
        return Emissions(symbols[:, used], late[:, used])

    def followed(self, rows: NDArray[np.bool_], rest: "Emissions") -> "Emissions":
        """Return these emissions, followed in the (R,) chosen rows by those of `rest`."""
        if not rest.emitted.any():
            return self
        longer = Emissions.nothing(len(self.symbols), rest.symbols.shape[1])
        longer.symbols[rows], longer.late[rows] = rest
        return Emissions(*(np.concatenate(pair, 1) for pair in zip(self, longer, strict=True)))

    def lists(self) -> Iterator[list[Emission]]:
        """Yield each stream's emissions."""
        for symbols, late in zip(self.symbols.tolist(), self.late.tolist(), strict=True):
            pairs = zip(symbols, late, strict=True)
            yield [Emission(symbol, ago) for symbol, ago in pairs if symbol >= 0]


@dataclass(frozen=True)
class Character:
    """A character and when it was heard."""

    text: str
    time: float  # seconds: the end of the encoder frame where the attention stopped
    late: float = 0.0  # seconds from then until it was committed


def spelt(vocabulary: Vocabulary, symbol: int, time: float, late: float = 0.0) -> list[Character]:
    """Return the characters of a symbol that was heard at a time in seconds."""
    return [Character(one, time, late) for one in vocabulary.written[symbol]]


def step_time(step: int, delay_steps: int) -> float:
    """Return the time in seconds of what a stream's step, from 0 on, hears.

    It is the end of the encoder frame that the step gives, `delay_steps` before the step's own.
    """
    return seconds(max(step + 1 - delay_steps, 0))


def seconds(steps: int) -> float:
    """Return the duration of whole steps."""
    return round(steps * STEP_SECONDS, 3)
