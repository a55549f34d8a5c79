"""Updates of single streams (characters, endpoints), made from a whole batch's arrays."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cortado.model.arrays import Rows
from cortado.model.emission import (
    CERTAIN,
    Character,
    Emission,
    Emissions,
    seconds,
    step_time,
    to_characters,
)
from cortado.model.streaming.alternatives import WordEnd
from cortado.model.streaming.snapshot import Snapshot
from cortado.model.streaming.utterances import SPACE, Endpoint, Segmentation
from cortado.model.vocabulary import Vocabulary


class Update(NamedTuple):
    """What is new of one stream after a step: characters, an endpoint, or its end."""

    characters: Sequence[Character]
    position: float  # seconds of audio processed for the characters so far
    finished: bool  # no update follows
    failed: bool = False
    endpoint: Endpoint | None = None  # after the characters
    snapshot: Snapshot | None = None  # of the suspended stream; no update follows
    alternatives: Sequence[WordEnd] = ()  # of words that end with the characters

    def within_input(self) -> "Update":
        """Return it for people, to whom no character has a time behind what was heard.

        Where the attention stops in the silence that follows the input, a character is of the
        input's end. What measures delays takes the times as they are.
        """
        end = round(self.position, 3)
        if not any(one.time > end for one in self.characters):
            return self
        return self._replace(characters=[_within(one, end) for one in self.characters])


def _within(one: Character, end: float) -> Character:
    over = max(one.time - end, 0.0)
    return replace(one, time=min(one.time, end), late=round(one.late + over, 3)) if over else one


FAILED = Update([], 0.0, True, failed=True)


class Results(NamedTuple):
    """The results of a batch of steps, for its R streams that have an update."""

    rows: Rows  # (R,)
    numbers: NDArray[np.int64]  # (R,) of the steps in their streams
    emissions: Emissions
    segmentation: Segmentation
    positions: NDArray[np.float64]  # (R,) seconds
    finished: NDArray[np.bool_]  # (R,)
    word_ends: Mapping[int, tuple[WordEnd, ...]]  # by place among the R

    def updates(self, vocabulary: Vocabulary, delay_steps: int) -> Iterator[tuple[int, Update]]:
        """Yield each row with its update."""
        columns = self.rows, self.numbers, self.positions, self.finished, *self.segmentation
        plain = (column.tolist() for column in columns)  # Python's numbers are faster than NumPy's
        streams = zip(self.emissions.lists(), *plain, strict=True)
        for place, stream in enumerate(streams):
            emissions, row, number, position, finished, space, utterance, start, end = stream
            written = [_characters(one, number, vocabulary, delay_steps) for one in emissions]
            characters = [character for some in written for character in some]
            if space:
                characters.insert(0, replace(characters[0], text=SPACE))
            ended = utterance >= 0
            endpoint = Endpoint(utterance, seconds(start), seconds(end)) if ended else None
            places = [
                one._replace(end=space + sum(map(len, written[: one.end])))
                for one in self.word_ends.get(place, ())
            ]
            yield (
                row,
                Update(characters, position, finished, endpoint=endpoint, alternatives=places),
            )


def _characters(
    one: Emission, number: int, vocabulary: Vocabulary, delay_steps: int
) -> list[Character]:
    """Return the characters of an emission at a stream's step."""
    time = step_time(number - one.late, delay_steps)
    confidence = one.confidence / CERTAIN
    return to_characters(vocabulary, one.symbol, time, seconds(one.late), confidence)
