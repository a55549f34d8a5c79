"""One live stream as the event loop holds it: audio goes in here, updates come to its listener."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from cortado.model.audio.decode import Resampler
from cortado.model.streaming.stream import Samples
from cortado.model.streaming.update import Update
from cortado.model.streaming.utterances import Utterances
from cortado.server.backlog import NOTHING

if TYPE_CHECKING:
    from cortado.server.engine import Engine

PIECE_SECONDS = 0.25  # a large message is resampled piecewise, so as not to hold up the event loop


class EngineStream:
    """One live stream in its slot of the engine; the event loop calls its methods."""

    def __init__(
        self, engine: "Engine", slot: int, sample_rate: int, listener: Callable[[Update], None]
    ) -> None:
        self.slot = slot
        self.listener = listener
        self.utterances = Utterances(engine.online.vocabulary.spaced)
        self._engine = engine
        self._piece = max(1, int(sample_rate * PIECE_SECONDS))
        self.taken = 0  # samples at the stream's rate, pushed to this stream or before it
        self.resampler = Resampler(sample_rate)
        self._unheard = NOTHING  # resampled, while there is no room for it
        self._turn = 0  # samples that were pushed since it was last others' turn
        self._room = asyncio.Event()

    @property
    def buffered(self) -> int:
        """Samples that wait for a step."""
        return self._engine.buffered(self)

    async def push(self, samples: Samples) -> None:
        """Hear (N,) samples at the stream's rate; wait while the buffer is full."""
        for start in range(0, len(samples), self._piece):
            piece = samples[start : start + self._piece]
            self._unheard = self.resampler.push(piece)
            self.taken += len(piece)
            while not self._engine.hear(self, self._unheard):
                await self._room.wait()
            self._unheard = NOTHING
            self._turn += len(piece)
            if self._turn >= self._piece:
                self._turn = 0
                await asyncio.sleep(0)  # others' turn

    def end(self) -> None:
        """Hear nothing more."""
        self._engine.end(self, self.resampler.finish())

    def suspend(self) -> None:
        """Hear what was pushed and nothing more; an update then tells the stream itself."""
        self._engine.suspend(self, self._unheard)

    def close(self) -> None:
        """Give the slot back; nothing is heard or told any more."""
        self._engine.close(self)

    def wait_for_room(self) -> None:
        """Let `push` wait until it is woken."""
        self._room.clear()

    def wake(self) -> None:
        """Let `push` go on."""
        self._room.set()
