"""Who is in which slot, what waits there for its step, and what a slot's row begins with.

Nothing here knows of threads: the engine locks.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cortado.model.streaming.listener import Listener, Suspended
from cortado.model.streaming.snapshot import Snapshot
from cortado.server.backlog import Backlog, Steps
from cortado.server.live_stream import EngineStream
from cortado.server.telling import Leaving, Written

Integers = NDArray[np.int64]


class Beginnings(NamedTuple):
    """Rows that have another stream than at their last step."""

    rows: Integers  # (R,)
    parted: NDArray[np.bool_]  # (R,) into utterances
    resumed: list[tuple[int, Suspended]]  # those of them that go on elsewhere than at the start

    def give(self, listener: Listener) -> None:
        """Give the rows of `listener` their streams' states."""
        if len(self.rows):
            listener.reset(self.rows, self.parted)
        for row, state in self.resumed:
            listener.resume(row, state)


class Slots:
    """A number of slots, each free or a stream's."""

    def __init__(self, count: int, backlog: Backlog) -> None:
        """Make `count` free slots, the rows of `backlog`."""
        self.backlog = backlog
        self._streams: list[EngineStream | None] = [None] * count
        self._free = list(reversed(range(count)))
        self._fresh = np.zeros(count, np.bool_)  # the row's state is the last owner's
        self._parted = np.ones(count, np.bool_)  # into utterances
        self._waits = np.zeros(count, np.bool_)  # for room
        self._resumed: dict[int, Suspended] = {}  # by slot, until its first step
        self._leaving: set[int] = set()  # slots that are suspended once all is heard

    @property
    def taken(self) -> int:
        """The number of slots that are not free."""
        return len(self._streams) - len(self._free)

    @property
    def streams(self) -> list[EngineStream]:
        """All streams."""
        return [stream for stream in self._streams if stream]

    def holds(self, stream: EngineStream) -> bool:
        """Return whether `stream` still has its slot."""
        return self._streams[stream.slot] is stream

    def open(
        self,
        make: Callable[[int], EngineStream],
        endpoints: bool,
        kept: Snapshot | None,
        now: float,
    ) -> EngineStream:
        """Return the stream that `make` makes for a free slot; `kept` is one to go on with."""
        slot = self._free.pop()
        stream = self._streams[slot] = make(slot)
        self.backlog.open(slot)
        self._fresh[slot], self._parted[slot], self._waits[slot] = True, endpoints, False
        if kept is not None:
            self._resumed[slot] = kept.listener
            self.backlog.resume(slot, kept.counts, kept.samples, now)
            stream.utterances.resume(kept.utterances)
        return stream

    def close(self, slot: int) -> None:
        """Free a slot."""
        self._streams[slot] = None
        self._leaving.discard(slot)
        self._resumed.pop(slot, None)
        self._free.append(slot)
        self.backlog.close(slot)

    def wait(self, stream: EngineStream) -> None:
        """Let `stream` wait for room."""
        self._waits[stream.slot] = True
        stream.wait_for_room()

    def leave(self, slot: int) -> None:
        """Suspend the stream in a slot once all is heard."""
        self._leaving.add(slot)

    def begin(self, rows: Integers) -> Beginnings:
        """Return what those of (R,) rows begin with whose streams have their first step now."""
        fresh = rows[self._fresh[rows]]
        self._fresh[fresh] = False
        resumed = [(row, self._resumed.pop(row)) for row in fresh.tolist() if row in self._resumed]
        return Beginnings(fresh, self._parted[fresh], resumed)

    def left(self, listener: Listener) -> list[Leaving]:
        """Return the streams that leave and have no step left."""
        drained = [slot for slot in self._leaving if self.backlog.drained(slot)]
        return [self._let_go(slot, listener) for slot in drained]

    def _let_go(self, slot: int, listener: Listener) -> Leaving:
        self._leaving.remove(slot)
        stream = self._streams[slot]
        assert stream is not None
        self.begin(np.array([slot])).give(listener)  # it may have had no step at all
        return Leaving(
            stream, listener.identity, *self.backlog.suspend(slot), listener.suspend(slot)
        )

    def owners(self, steps: Steps) -> list[EngineStream]:
        """Count steps that failed as done; return the streams that they were of."""
        owned = self.backlog.count(steps)
        return self._in(steps.rows[owned])

    def written(self, steps: Steps, symbols: NDArray[np.int32], ends: NDArray[np.bool_]) -> Written:
        """Count steps as done; return what is to be told of them.

        Args:
            steps: R of them.
            symbols: (R, n) that they wrote, -1 for none.
            ends: (R,) whether an utterance ended with them.
        """
        owned = self.backlog.count(steps)
        finished = self.backlog.finished(steps.rows) & owned
        told = np.flatnonzero(((symbols >= 0).any(1) | ends) & owned | finished)
        rows = steps.rows[told]
        facts = (symbols[told], self.backlog.done[rows], self.backlog.positions(rows))
        return Written(self._in(rows), *facts, ends[told], finished[told])

    def woken(self, rows: Integers) -> list[EngineStream]:
        """Return the streams of (R,) rows that have waited for room; they wait no longer."""
        waiting = rows[self._waits[rows]]
        self._waits[waiting] = False
        return self._in(waiting)

    def _in(self, rows: Integers) -> list[EngineStream]:
        return [stream for row in rows.tolist() if (stream := self._streams[row])]
