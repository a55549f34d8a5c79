"""Streams that can be resumed, by token: connected ones and detached ones."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from cortado.model.audio.decode import Resampler
from cortado.model.streaming.snapshot import Snapshot
from cortado.server.protocol.transcript import ResumePoint


class DetachedStream(NamedTuple):
    """A stream without a connection."""

    point: ResumePoint
    snapshot: Snapshot
    resampler: Resampler


class ResumableStreams:
    """At most so many detached streams, each for so many seconds; and who has the others."""

    def __init__(self, streams: int, seconds: float) -> None:
        """Hold nothing where one of the two is 0."""
        self._streams, self._seconds = streams, seconds
        self.attached: dict[str, Callable[[], Awaitable[None]]] = {}  # by token, how to detach each
        # The oldest come first.
        self._detached: dict[str, tuple[DetachedStream, asyncio.TimerHandle]] = {}

    def __len__(self) -> int:
        """Return how many are detached."""
        return len(self._detached)

    @property
    def enabled(self) -> bool:
        """Whether anything is held at all."""
        return self._streams > 0 and self._seconds > 0

    def put(self, token: str, stream: DetachedStream) -> None:
        """Hold a stream; where there are too many, the oldest is forgotten."""
        if not self.enabled:
            return
        if len(self._detached) >= self._streams:
            self._take(next(iter(self._detached)))
        timer = asyncio.get_running_loop().call_later(self._seconds, self._take, token)
        self._detached[token] = stream, timer

    async def claim(self, token: str) -> DetachedStream | None:
        """Take a stream out, from its connection if it has one; None if there is no such."""
        if detach := self.attached.get(token):
            await detach()
        return self._take(token)

    def _take(self, token: str) -> DetachedStream | None:
        stream, timer = self._detached.pop(token, (None, None))
        if timer is not None:
            timer.cancel()
        return stream
