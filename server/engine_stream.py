"""A live stream's handle on the event loop: takes audio, and calls back with updates."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from cortado.model.arrays import Samples
from cortado.model.streaming.snapshot import Snapshot
from cortado.model.streaming.update import Update
from cortado.server.protocol.messages import Start
from cortado.server.resampling import StreamResampler

PIECE_SECONDS = 0.25  # a large message is resampled piecewise, so as not to hold up the event loop
NOTHING = np.zeros(0, np.float32)


class Intake(NamedTuple):
    """How much of a stream has gone into the engine."""

    taken: int  # samples at the client's rate
    resampler: tuple[Samples, int]  # its state after them


OnSaved = Callable[[Snapshot, Intake], None]


class Host(Protocol):
    """The engine, as a live stream sees it; `Engine` says what its methods do."""

    @property
    def failure(self) -> str | None: ...
    def open(
        self,
        start: Start,
        on_update: Callable[[Update], None],
        *,
        instead_of: "EngineStream | None" = None,
    ) -> "EngineStream": ...
    def push(self, stream: "EngineStream", samples: Samples) -> bool: ...
    def end(self, stream: "EngineStream", samples: Samples) -> None: ...
    def suspend(self, stream: "EngineStream", samples: Samples) -> None: ...
    def save(self, stream: "EngineStream", on_saved: OnSaved) -> None: ...
    def watch(self, stream: "EngineStream") -> None: ...
    def close(self, stream: "EngineStream") -> None: ...


class EngineStream:
    """One live stream in its row of the engine; the event loop calls its methods."""

    def __init__(
        self, host: Host, row: int, sample_rate: int, on_update: Callable[[Update], None]
    ) -> None:
        self.row = row
        self.on_update = on_update
        self._host = host
        self._piece = max(1, int(sample_rate * PIECE_SECONDS))
        self.taken = 0  # samples at the client's rate, those before a resume included
        self.resampler = StreamResampler(sample_rate)
        self._pending = NOTHING  # resampled samples that the full buffer has not taken
        self._turn = 0  # samples pushed since other tasks last had their turn
        self.space = asyncio.Event()  # in the full buffer: a waiting `push` goes on
        self._all_done = asyncio.Event()
        self._awaits_commit = False  # when all was done
        self.suspected = 0  # steps up to one that failed, unless it was the stream's alone
        self.coming = self.intake = Intake(0, self.resampler.state())  # with the next push; so far

    @property
    def failure(self) -> str | None:
        """Why the model will never step the stream again; None if it will."""
        return self._host.failure

    def go_on(self, resampler: StreamResampler, taken: int) -> None:
        """Go on where another stream has stopped, which had taken so many samples."""
        self.resampler, self.taken = resampler, taken
        self.coming = self.intake = Intake(taken, resampler.state())

    async def push(self, samples: Samples) -> None:
        """Add (N,) samples at the client's rate; wait while the buffer is full."""
        if not len(samples):
            await asyncio.sleep(0)  # much may have been decoded in vain
        for start in range(0, len(samples), self._piece):
            piece = samples[start : start + self._piece]
            self._pending = self.resampler.push(piece)
            self.taken += len(piece)
            self.coming = Intake(self.taken, self.resampler.state())
            while not self._host.push(self, self._pending):
                await self.space.wait()
            self._pending = NOTHING
            self._turn += len(piece)
            if self._turn >= self._piece:
                self._turn = 0
                await asyncio.sleep(0)  # other tasks' turn

    def save(self, on_saved: OnSaved) -> None:
        """Call `on_saved` with a snapshot after the updates that it contains; the stream goes on.

        It is called on the event loop with what went into the snapshot, unless the stream closes.
        """
        self._host.save(self, on_saved)

    async def processed(self) -> bool:
        """Wait until all whole steps of what was pushed are done and their updates delivered.

        Return whether a character that was heard awaits its commit then.
        """
        self._all_done.clear()
        self._host.watch(self)
        await self._all_done.wait()
        return self._awaits_commit

    def all_done(self, awaits_commit: bool) -> None:
        """Let a waiting `processed` return whether a character awaits its commit."""
        self._awaits_commit = awaits_commit
        self._all_done.set()

    def end(self) -> None:
        """End the input."""
        self._host.end(self, self.resampler.finish())

    def restarted(self, start: Start) -> "EngineStream":
        """Return a new stream in the place of this one, which has ended, with the same model."""
        return self._host.open(start, self.on_update, instead_of=self)

    def suspend(self) -> None:
        """Suspend the stream after what was pushed; its last update has the snapshot."""
        self._host.suspend(self, self._pending)

    def close(self) -> None:
        """Give the row back; no further update comes."""
        self._host.close(self)
