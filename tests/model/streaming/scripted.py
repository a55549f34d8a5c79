"""A recogniser whose streams emit what a test says."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from cortado.model.arrays import Rows, Samples
from cortado.model.emission import Emission, Emissions
from cortado.model.search.grapheme_to_phoneme import GraphemeToPhoneme
from cortado.model.search.phrases import Expected
from cortado.model.search.settings import GREEDY
from cortado.model.vocabulary import Vocabulary

Script = Mapping[int, list[Emission]]  # by the first sample of a step


class Scripted:
    """A stream emits what the script has for the value of its step's first sample."""

    name, lookahead_ms, delay_steps, flush_steps, beam, batch = "scripted", 0, 3, 2, GREEDY, 1
    digest = bytes(16)
    pauses = True  # wherever a stream is asked

    def __init__(
        self,
        script: Script,
        rest: list[Emission] | None = None,
        waits: Mapping[int, int] | None = None,
    ) -> None:
        """Emit by a script; `rest` is not committed where an utterance ends.

        By the first sample of a step, `waits` has the steps since a letter that is not committed.
        """
        self.script, self.rest, self.waits = script, rest or [], waits or {}
        self.vocabulary = Vocabulary()
        self.g2p = GraphemeToPhoneme(self.beam.words)

    def stepper(self, streams: int, threads: int | None = None) -> "ScriptedStepper":
        return ScriptedStepper(self, streams)


class ScriptedStepper:
    """It remembers how many steps each row has taken."""

    bytes_per_stream, threads = 8, 1

    def __init__(self, owner: Scripted, streams: int) -> None:
        self.owner, self.streams = owner, streams
        self.steps = np.zeros(streams, np.int64)
        self.waits = np.full(streams, -1, np.int32)
        self.restarted: list[tuple[int, int]] = []  # row and step of each beginning

    def reset(self, rows: Rows) -> None:
        self.steps[rows] = 0
        self.waits[rows] = -1

    def step(self, samples: Samples, rows: Rows) -> Emissions:
        self.steps[rows] += 1
        self.waits[rows] = [self.owner.waits.get(round(float(one[0])), -1) for one in samples]
        return emissions([self.owner.script.get(round(float(one[0])), []) for one in samples])

    def blanks(self, rows: Rows) -> NDArray[np.bool_]:
        return np.ones(len(rows), np.bool_)

    def pending(self, rows: Rows) -> NDArray[np.int32]:
        return self.waits[rows]

    def expect(self, row: int, phrases: Expected) -> None:
        """Expect nothing."""

    def spoken(self, rows: Rows) -> NDArray[np.float32]:
        raise AssertionError("expected no alternatives of a greedy scan")

    def pauses(self, rows: Rows) -> NDArray[np.bool_]:
        return self.owner.pauses & np.ones(len(rows), np.bool_)

    def restart(self, rows: Rows) -> Emissions:
        self.restarted += [(row, int(self.steps[row])) for row in rows.tolist()]
        return emissions([self.owner.rest] * len(rows))

    def snapshot(self, row: int) -> bytes:
        return self.steps[row].tobytes()

    def fits(self, state: bytes) -> bool:
        return len(state) == self.bytes_per_stream

    def restore(self, row: int, state: bytes) -> None:
        self.steps[row] = np.frombuffer(state, np.int64)[0]


def emissions(rows: list[list[Emission]]) -> Emissions:
    """Return the emissions of each row as arrays."""
    found = Emissions.nothing(len(rows), max(map(len, rows), default=0))
    for row, each in enumerate(rows):
        for n, one in enumerate(each):
            for part, value in zip(found, one, strict=True):
                part[row, n] = value
    return found
