"""Division of S streams' emissions into utterances, with their times, in constant memory."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cortado.model.arrays import Rows
from cortado.model.compiled.jit import uncounted
from cortado.model.emission import Emissions
from cortado.model.vocabulary import Vocabulary

SPACE = " "
COUNT, CHARACTERS, START, END, SPACED = range(5)  # columns of a stream's state
FRESH = (0, 0, -1, 0, 1)  # a stream's start needs no space


@dataclass(frozen=True)
class Endpoint:
    """The end of an utterance."""

    utterance: int  # the stream's first is 0
    start: float  # seconds: the time of its first character
    end: float  # seconds: the time of its last character


class Segmentation(NamedTuple):
    """Where R streams' emissions of a step fall in their utterances."""

    spaces: NDArray[np.bool_]  # (R,) whether a space comes before the step's first character
    utterances: NDArray[np.int64]  # (R,) the one that ends after the step, -1 for none
    starts: NDArray[np.int64]  # (R,) its first and its last character's time, in steps
    ends: NDArray[np.int64]

    def of(self, rows: Rows) -> "Segmentation":
        """Return the part of some of the streams."""
        utterances, starts, ends = self.utterances[rows], self.starts[rows], self.ends[rows]
        return Segmentation(self.spaces[rows], utterances, starts, ends)

    def open(self, rows: NDArray[np.bool_]) -> "Segmentation":
        """Return it without the ends of utterances in the (R,) chosen streams."""
        return self._replace(utterances=np.where(rows, -1, self.utterances))


class Utterances:
    """The utterances of S streams so far: numbers, lengths and times."""

    def __init__(self, streams: int, vocabulary: Vocabulary, delay_steps: int) -> None:
        written = vocabulary.texts
        self._lengths = np.array([len(text) for text in written])
        self._begins = np.array([text.startswith(SPACE) for text in written])
        self._closes = np.array([text.endswith(SPACE) for text in written])
        self._spaced, self._delay_steps = vocabulary.spaced, delay_steps
        # (S, 5) utterances that have ended; characters; the first and the last character's time, in
        # steps, of the one that goes on, the first -1 for none; whether the last was a space
        self._state = np.zeros((streams, 5), np.int64)

    def reset(self, rows: Rows) -> None:
        """Reset the streams in (R,) rows to the state before any character."""
        self._state[rows] = FRESH

    def step(
        self, rows: Rows, emissions: Emissions, numbers: Rows, ended: NDArray[np.bool_]
    ) -> Segmentation:
        """Return where the emissions of (R,) rows fall in utterances.

        An utterance begins with a new word. The restarted decoder does not write the space before
        it, so it is added here, at the time of the first character. So the characters of a stream,
        joined, are its text.

        Args:
            rows: which streams, each once.
            emissions: of their step.
            numbers: (R,) of the steps in their streams.
            ended: (R,) whether the utterance ends with the step.
        """
        found = np.zeros((4, len(rows)), np.int64)
        news = emissions.symbols, emissions.late, numbers, ended
        symbols = self._lengths, self._begins, self._closes
        _segment(rows, *news, *symbols, self._spaced, self._delay_steps, self._state, found)
        return Segmentation(found[0] != 0, *found[1:])

    def snapshot(self, row: int) -> list[int]:
        """Return what `restore` takes."""
        return self._state[row].tolist()

    def restore(self, row: int, state: list[int]) -> None:
        """Give a row what `snapshot` returned."""
        self._state[row] = state


@uncounted(cached=True)
def _segment(
    rows: Any,
    symbols: Any,
    late: Any,
    numbers: Any,
    ended: Any,
    lengths: Any,
    begins: Any,
    closes: Any,
    spaced: bool,
    delay_steps: int,
    state: Any,
    found: Any,
) -> None:
    """Set `found` (4, R) to the columns of a `Segmentation`."""
    for r in range(len(rows)):
        own = state[rows[r]]
        for n in range(symbols.shape[1]):
            symbol = symbols[r, n]
            if symbol < 0:
                continue
            time = max(numbers[r] - late[r, n] + 1 - delay_steps, 0)
            if own[START] < 0:
                own[START] = time
                if spaced and not own[SPACED] and not begins[symbol]:
                    found[0, r] = 1
                    own[CHARACTERS] += 1
            own[CHARACTERS] += lengths[symbol]
            own[END], own[SPACED] = time, closes[symbol]
        found[1, r] = -1
        if ended[r] and own[START] >= 0:
            found[1, r], found[2, r], found[3, r] = own[COUNT], own[START], own[END]
            own[COUNT] += 1
            own[START] = -1
