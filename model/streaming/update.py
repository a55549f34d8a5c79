"""What a stream has to say after one of its steps, made of the arrays of a whole batch."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cortado.model.emission import Character, Emission, Emissions, seconds, spelt, step_time
from cortado.model.streaming.interface import Rows
from cortado.model.streaming.snapshot import Snapshot
from cortado.model.streaming.utterances import SPACE, Endpoint, Parting
from cortado.model.vocabulary import Vocabulary


class Update(NamedTuple):
    """What a step gave one stream: characters, the end of an utterance, or its own."""

    characters: Sequence[Character]
    position: float  # seconds of audio that the characters so far rest on
    finished: bool  # nothing follows
    failed: bool = False
    endpoint: Endpoint | None = None  # after the characters
    snapshot: Snapshot | None = None  # of the stream, which was suspended: nothing follows


FAILED = Update([], 0.0, True, failed=True)


class Results(NamedTuple):
    """What a batch of steps gave those R of its streams of which there is something to say."""

    rows: Rows  # (R,)
    numbers: NDArray[np.int64]  # (R,) of the steps in their streams
    emissions: Emissions
    parting: Parting
    positions: NDArray[np.float64]  # (R,) seconds
    finished: NDArray[np.bool_]  # (R,)

    def updates(self, vocabulary: Vocabulary, delay_steps: int) -> Iterator[tuple[int, Update]]:
        """Yield each row with its update."""
        columns = self.rows, self.numbers, self.positions, self.finished, *self.parting
        plain = (column.tolist() for column in columns)  # plain numbers are quicker to handle
        for emissions, row, number, position, finished, space, utterance, start, end in zip(
            self.emissions.lists(), *plain, strict=True
        ):
            characters = [
                character
                for one in emissions
                for character in _characters(one, number, vocabulary, delay_steps)
            ]
            if space:
                characters.insert(0, Character(SPACE, characters[0].time, characters[0].late))
            ended = utterance >= 0
            endpoint = Endpoint(utterance, seconds(start), seconds(end)) if ended else None
            yield row, Update(characters, position, finished, endpoint=endpoint)


def _characters(
    one: Emission, number: int, vocabulary: Vocabulary, delay_steps: int
) -> list[Character]:
    """Return the characters of an emission at a stream's step."""
    time = step_time(number - one.late, delay_steps)
    return spelt(vocabulary, one.symbol, time, seconds(one.late))
