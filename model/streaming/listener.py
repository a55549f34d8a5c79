"""Streams in a table whose decoders begin anew wherever an utterance ends.

A reset of the decoder keeps what it has written from weighing on what comes next. Features and
encoder go on: they have heard the beginning of the next word already.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cortado.model.streaming.endpoint import QUIET_RULES, RULES, Endpointer, Rule
from cortado.model.streaming.suspension import SnapshotError, unwrap
from cortado.model.streaming.vad import SPEECH

if TYPE_CHECKING:
    from cortado.model.backends.choice import Online
    from cortado.model.streaming.stream import Samples
    from cortado.model.streaming.vad import Vad, VadTable

Rules = tuple[Rule, ...]


class Suspended(NamedTuple):
    """A row of a listener."""

    state: bytes  # of the table
    endpoint: list[int]
    rules: Rules
    vad: bytes = b""  # the detector's state, if one hears the stream


class _Way(NamedTuple):
    """A way to part streams into utterances."""

    rules: Rules
    endpointer: Endpointer
    vad: "VadTable | None"

    def quiet(
        self, samples: "Samples", rows: NDArray[np.int64], chosen: NDArray[np.bool_]
    ) -> NDArray[np.bool_] | bool:
        """Return whether the detector hears nobody, for the chosen ones of (R,) rows."""
        return False if self.vad is None else self.vad.step(samples[chosen], rows[chosen]) < SPEECH


class Listener:
    """A number of streams, one a row, and where their utterances end.

    With a voice activity detector, it hears each stream that is parted; one that began without it
    and was resumed goes on without.
    """

    def __init__(
        self,
        online: "Online",
        streams: int,
        threads: int | None = None,
        rules: Rules | None = None,
        vad: "Vad | None" = None,
    ) -> None:
        """Begin `streams` streams that have heard nothing.

        Args:
            online: the recogniser.
            streams: how many.
            threads: of the recogniser.
            rules: of utterances, the usual ones if None; with () they do not end.
            vad: what hears the streams too.

        Raises:
            ValueError: a rule asks for quiet, and nothing hears it.
        """
        rules = (QUIET_RULES if vad else RULES) if rules is None else rules
        if vad is None and any(rule.quiet for rule in rules):
            raise ValueError("expected a voice activity detector for rules with quiet, got none")
        self.table = online.table(streams, threads)
        self._digest = online.digest
        self.identity = online.name, online.digest.hex()
        plain = RULES if vad else rules
        self._ways = [_Way(plain, Endpointer(streams, plain), None)]
        if vad and rules:
            self._ways.append(_Way(rules, Endpointer(streams, rules), vad.table(streams)))
        self._way = np.full(streams, len(self._ways) - 1)  # of each row
        self._heeded = np.full(streams, bool(rules))  # rows whose endpoints are wanted
        if rules and streams:
            self.table.blanks(np.zeros(1, np.int64))  # compiled here: nobody should wait for it

    def reset(self, rows: NDArray[np.int64], endpoints: NDArray[np.bool_] | bool = True) -> None:
        """Let the streams in (R,) rows have heard nothing; with `endpoints` they are parted."""
        self.table.reset(rows)
        for way in self._ways:
            way.endpointer.reset(rows)
            if way.vad is not None:
                way.vad.reset(rows)
        self._way[rows] = np.where(endpoints, len(self._ways) - 1, 0)
        self._heeded[rows] = endpoints

    def step(
        self, samples: "Samples", rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Return what `Table.step` does, and which (R,) utterances ended with the step."""
        symbols = self.table.step(samples, rows)
        ended = np.zeros(len(rows), np.bool_)
        for number, way in enumerate(self._ways):
            chosen = self._heeded[rows] & (self._way[rows] == number)
            if chosen.any():
                heard = rows[chosen]
                quiet = way.quiet(samples, rows, chosen)
                facts = symbols[chosen], self.table.blanks(heard), quiet
                ended[chosen] = way.endpointer.step(heard, *facts)
        if ended.any():
            symbols = with_rest(symbols, ended, self.table.renew(rows[ended]))
        return symbols, ended

    def suspend(self, row: int) -> Suspended:
        """Return a stream's state, for `resume` of the same model, here or elsewhere."""
        way = self._ways[self._way[row]]
        kept = [int(self._heeded[row]), *way.endpointer.suspend(row)]
        vad = way.vad.suspend(row) if way.vad is not None else b""
        return Suspended(self.table.suspend(row), kept, way.rules, vad)

    def resume(self, row: int, kept: Suspended) -> None:
        """Give a row the state that `suspend` returned: the stream goes on to the same bits.

        Raises:
            SnapshotError: it is damaged, or of another model, kind of CPU or detector.
        """
        self.check(kept)
        self.table.resume(row, kept.state)
        heeded, *counts = kept.endpoint
        self._heeded[row], self._way[row] = bool(heeded), bool(kept.vad)
        way = self._ways[self._way[row]]
        way.endpointer.resume(row, tuple(counts))
        if way.vad is not None:
            way.vad.resume(row, kept.vad)

    def check(self, kept: Suspended) -> None:
        """Look whether `resume` would take a state.

        Raises:
            SnapshotError: it is damaged, or of another model, kind of CPU or detector.
        """
        unwrap(self._digest, kept.state, self.table.bytes_per_stream)
        vad = self._ways[-1].vad
        check_vad(kept, vad is not None)
        if vad is not None and kept.vad:
            vad.check(kept.vad)


def with_rest(
    symbols: NDArray[np.int32], rows: NDArray[np.bool_], rest: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Return what a step writes (R, n), in some rows followed by what an utterance's end decides.

    Args:
        symbols: (R, m), -1 for none.
        rows: (R,) true where there is a rest.
        rest: (R', k) of those rows, -1 for none.
    """
    if not (rest >= 0).any():
        return symbols
    longer = np.full((len(symbols), rest.shape[1]), -1, np.int32)
    longer[rows] = rest
    return np.concatenate([symbols, longer], 1)


def check_vad(kept: Suspended, there: bool) -> None:
    """Look whether a state finds the detector that it needs.

    Raises:
        SnapshotError: a detector has heard the stream, and none is there.
    """
    if kept.vad and not there:
        raise SnapshotError(
            "expected a stream that began without a voice activity detector, got one that began"
            " with it: resume it where --vad is given"
        )
