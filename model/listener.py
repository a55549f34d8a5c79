"""Streams in a table whose decoders begin anew wherever an utterance ends.

A reset of the decoder keeps what it has written from weighing on what comes next. Features and
encoder go on: they have heard the beginning of the next word already.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from model.endpoint import RULES, Endpointer, Rule

if TYPE_CHECKING:
    from model.backend import Online
    from model.stream import Samples


class Suspended(NamedTuple):
    """A row of a listener."""

    state: bytes  # of the table
    endpoint: list[int]


class Listener:
    """A number of streams, one a row, and where their utterances end."""

    def __init__(
        self,
        online: "Online",
        streams: int,
        threads: int | None = None,
        rules: tuple[Rule, ...] = RULES,
    ) -> None:
        """Begin `streams` streams that have heard nothing; without rules utterances do not end."""
        self.table = online.table(streams, threads)
        self._endpointer = Endpointer(streams, rules)
        self._heeded = np.full(streams, bool(rules))  # rows whose endpoints are wanted
        if rules and streams:
            self.table.blanks(np.zeros(1, np.int64))  # compiled here: nobody should wait for it

    def reset(self, rows: NDArray[np.int64], endpoints: NDArray[np.bool_] | bool = True) -> None:
        """Let the streams in (R,) rows have heard nothing; with `endpoints` they are parted."""
        self.table.reset(rows)
        self._endpointer.reset(rows)
        self._heeded[rows] = endpoints

    def step(
        self, samples: "Samples", rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Return what `Table.step` does, and which (R,) utterances ended with the step."""
        symbols = self.table.step(samples, rows)
        ended = np.zeros(len(rows), np.bool_)
        heeded = self._heeded[rows]
        if heeded.any():
            heard = rows[heeded]
            ended[heeded] = self._endpointer.step(heard, symbols[heeded], self.table.blanks(heard))
            if ended.any():
                self.table.renew(rows[ended])
        return symbols, ended

    def suspend(self, row: int) -> Suspended:
        """Return a stream's state, for `resume` of the same model, here or elsewhere."""
        kept = [int(self._heeded[row]), *self._endpointer.suspend(row)]
        return Suspended(self.table.suspend(row), kept)

    def resume(self, row: int, kept: Suspended) -> None:
        """Give a row the state that `suspend` returned: the stream goes on to the same bits.

        Raises:
            SuspensionError: it is damaged, or of another model or kind of CPU.
        """
        self.table.resume(row, kept.state)
        heeded, *counts = kept.endpoint
        self._heeded[row] = bool(heeded)
        self._endpointer.resume(row, tuple(counts))
