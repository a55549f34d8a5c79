"""A live stream's handle on the event loop: takes audio, and calls back with updates."""

import asyncio
from collections.abc import Callable
from typing import Protocol

import numpy as np

from cortado.model.audio.decode import Resampler
from cortado.model.streaming.interface import Samples
from cortado.model.streaming.update import Update

PIECE_SECONDS = 0.25  # a large message is resampled piecewise, so as not to hold up the event loop
NOTHING = np.zeros(0, np.float32)


class Host(Protocol):
    """The engine, as a live stream sees it."""

    def push(self, stream: "EngineStream", samples: Samples) -> bool:
        """Add (N,) samples at 16 kHz; return False if the buffer is too full."""
        ...

    def end(self, stream: "EngineStream", samples: Samples) -> None:
        """Add the last (N,) samples and end the input."""
        ...

    def suspend(self, stream: "EngineStream", samples: Samples) -> None:
        """Add (N,) samples; once all steps are done, an update has the snapshot."""
        ...

    def waiting(self, stream: "EngineStream") -> int:
        """Return the number of samples that wait for a step."""
        ...

    def close(self, stream: "EngineStream") -> None:
        """Free the row."""
        ...


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
        self.resampler = Resampler(sample_rate)
        self._pending = NOTHING  # resampled samples that the full buffer has not taken
        self._turn = 0  # samples pushed since other tasks last had their turn
        self._space = asyncio.Event()

    @property
    def waiting(self) -> int:
        """The number of samples that wait for a step."""
        return self._host.waiting(self)

    async def push(self, samples: Samples) -> None:
        """Add (N,) samples at the client's rate; wait while the buffer is full."""
        for start in range(0, len(samples), self._piece):
            piece = samples[start : start + self._piece]
            self._pending = self.resampler.push(piece)
            self.taken += len(piece)
            while not self._host.push(self, self._pending):
                await self._space.wait()
            self._pending = NOTHING
            self._turn += len(piece)
            if self._turn >= self._piece:
                self._turn = 0
                await asyncio.sleep(0)  # other tasks' turn

    def end(self) -> None:
        """End the input."""
        self._host.end(self, self.resampler.finish())

    def suspend(self) -> None:
        """Suspend the stream after what was pushed; its last update has the snapshot."""
        self._host.suspend(self, self._pending)

    def close(self) -> None:
        """Give the row back; no further update comes."""
        self._host.close(self)

    def wait_for_space(self) -> None:
        """Make `push` wait until `wake` is called."""
        self._space.clear()

    def wake(self) -> None:
        """Let a waiting `push` continue."""
        self._space.set()
