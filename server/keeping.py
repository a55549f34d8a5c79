"""Streams whose connection was lost, kept for a while in case that their client comes back."""

import asyncio
from typing import NamedTuple

from cortado.model.audio.decode import Resampler
from cortado.model.streaming.snapshot import Snapshot
from cortado.server.protocol.messages import Start
from cortado.server.transcript import Transcript


class Lost(NamedTuple):
    """A stream without a connection."""

    start: Start
    snapshot: Snapshot
    resampler: Resampler
    samples: int  # received, at the rate of `start`
    transcript: Transcript


class Keeping:
    """At most so many streams, by their tokens, each for so many seconds."""

    def __init__(self, streams: int, seconds: float) -> None:
        """Keep nothing where one of the two is 0."""
        self._streams, self._seconds = streams, seconds
        self._lost: dict[str, tuple[Lost, asyncio.TimerHandle]] = {}  # the oldest first

    def __len__(self) -> int:
        return len(self._lost)

    @property
    def wanted(self) -> bool:
        """Whether anything is kept at all."""
        return self._streams > 0 and self._seconds > 0

    def put(self, token: str, lost: Lost) -> None:
        """Keep a stream; where there are too many, the oldest is forgotten."""
        if not self.wanted:
            return
        if len(self._lost) >= self._streams:
            self.take(next(iter(self._lost)))
        timer = asyncio.get_running_loop().call_later(self._seconds, self.take, token)
        self._lost[token] = lost, timer

    def take(self, token: str) -> Lost | None:
        """Return a stream that is kept, if it is; it is kept no longer."""
        lost, timer = self._lost.pop(token, (None, None))
        if timer is not None:
            timer.cancel()
        return lost
