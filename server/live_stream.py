"""One live stream as the event loop holds it: audio goes in here, updates are called back."""

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
    """What steps a live stream: an engine."""

    def hear(self, stream: "EngineStream", samples: Samples) -> bool:
        """Take (N,) samples at 16 kHz if there is room for them."""
        ...

    def end(self, stream: "EngineStream", samples: Samples) -> None:
        """Take the last (N,) samples."""
        ...

    def suspend(self, stream: "EngineStream", samples: Samples) -> None:
        """Take (N,) samples; an update brings the snapshot once all is heard."""
        ...

    def waiting(self, stream: "EngineStream") -> int:
        """Return the samples that wait for a step."""
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
        self.taken = 0  # samples at the stream's rate, pushed to this stream or before it
        self.resampler = Resampler(sample_rate)
        self._unheard = NOTHING  # resampled, while there is no room for it
        self._turn = 0  # samples that were pushed since it was last others' turn
        self._room = asyncio.Event()

    @property
    def waiting(self) -> int:
        """Samples that wait for a step."""
        return self._host.waiting(self)

    async def push(self, samples: Samples) -> None:
        """Hear (N,) samples at the stream's rate; wait while the buffer is full."""
        for start in range(0, len(samples), self._piece):
            piece = samples[start : start + self._piece]
            self._unheard = self.resampler.push(piece)
            self.taken += len(piece)
            while not self._host.hear(self, self._unheard):
                await self._room.wait()
            self._unheard = NOTHING
            self._turn += len(piece)
            if self._turn >= self._piece:
                self._turn = 0
                await asyncio.sleep(0)  # others' turn

    def end(self) -> None:
        """Hear nothing more."""
        self._host.end(self, self.resampler.finish())

    def suspend(self) -> None:
        """Hear what was pushed and nothing more; an update then brings the snapshot."""
        self._host.suspend(self, self._unheard)

    def close(self) -> None:
        """Give the row back; nothing is heard any more, and no update comes."""
        self._host.close(self)

    def wait_for_room(self) -> None:
        """Let `push` wait until it is woken."""
        self._room.clear()

    def wake(self) -> None:
        """Let `push` go on."""
        self._room.set()
