"""Streams that can be resumed, by token: connected ones and detached ones."""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple
from weakref import WeakValueDictionary

from prometheus_client import Counter

from cortado.model.streaming.snapshot import SnapshotError
from cortado.server.detached import DetachedStream
from cortado.server.protocol.messages import ProtocolError
from cortado.server.settings import Settings
from cortado.server.signing import Signer
from cortado.server.store import MARK, Store, StoreError, name_of

STORE_THREADS = 8  # of its own: one that hangs holds up no upload, which has threads as well

logger = logging.getLogger(__name__)


class Held(NamedTuple):
    """A detached stream in this process."""

    stream: DetachedStream
    timer: asyncio.TimerHandle  # that forgets it


class ResumableStreams:
    """At most so many detached streams, each for so many seconds; and who has the others.

    In a store they outlive the process, and other servers find them there: detached ones, and
    those that go on as they were when they were last saved.
    """

    def __init__(
        self, settings: Settings, store: Store | None, signer: Signer, failures: Counter
    ) -> None:
        """Hold nothing where a setting is 0; without a store, in this process alone.

        Failures of the store are counted.
        """
        self._settings, self._store, self._signer = settings, store, signer
        self._failures = failures
        self.attached: dict[str, Callable[[], Awaitable[None]]] = {}  # by token, how to detach each
        self._detached: dict[str, Held] = {}  # the oldest come first
        self._marks: dict[str, bytes] = {}  # by token, of what this process has in the store
        self._claims: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by token
        self._threads = ThreadPoolExecutor(STORE_THREADS, "store")

    def __len__(self) -> int:
        """Return how many are detached here."""
        return len(self._detached)

    @property
    def enabled(self) -> bool:
        """Whether anything is held at all."""
        return self._settings.keep_streams > 0 and self._settings.keep_seconds > 0

    @property
    def saves(self) -> float:
        """The seconds between two times that a live stream is saved; 0 if none is."""
        return self._settings.save_seconds if self.enabled and self._store else 0.0

    def close(self) -> None:
        """Let go of the store."""
        self._threads.shutdown()
        if self._store:
            self._store.close()

    async def put(self, token: str, stream: DetachedStream) -> None:
        """Hold a detached stream; where there are too many, the oldest is forgotten."""
        if not self.enabled:
            return
        if self._store and await self.save(token, stream.to_bytes()) is False:
            return  # another server has it
        if len(self._detached) >= self._settings.keep_streams:
            self._expire(next(iter(self._detached)))
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._settings.keep_seconds, self._expire, token)
        self._detached[token] = Held(stream, timer)

    async def save(self, token: str, data: bytes) -> bool | None:
        """Put a stream into the store; return whether it is this server's, None if that fails."""
        return await self._write(token, self._signer.signed(data, name_of(token)))

    async def _write(self, token: str, data: bytes) -> bool | None:
        assert self._store is not None
        written = secrets.token_bytes(MARK) + data
        seconds = self._settings.keep_seconds + self._settings.save_seconds
        mark = self._marks.get(token, b"")
        put, loop = self._store.put, asyncio.get_running_loop()
        try:
            is_own = await loop.run_in_executor(self._threads, put, token, written, seconds, mark)
        except StoreError as error:  # it harms nobody here
            self._failed(error)
            return None
        if is_own:
            self._marks[token] = written[:MARK]
        else:
            self._marks.pop(token, None)
        return is_own

    async def drop(self, token: str) -> None:
        """Hold a stream no longer: it has ended, and no server that had it may go on with it."""
        if self._store and token in self._marks:
            await self._write(token, b"")
            self._marks.pop(token, None)

    async def claim(self, token: str) -> DetachedStream | None:
        """Take a stream out, from its connection if it has one; None if there is no such.

        Of several servers at which a stream is claimed one gets it, and of several claims here the
        last: a client comes again before the server has noticed that it was gone.
        """
        async with self._claims.setdefault(token, asyncio.Lock()):
            if detach := self.attached.get(token):
                await detach()
            held = self._forget(token)
            if self._store is None:
                return held.stream if held else None
            stream = held.stream if held else await self._found(token)
            if stream and await self.save(token, stream.to_bytes()) is False:
                return None  # another server has it
            return stream

    async def _found(self, token: str) -> DetachedStream | None:
        """Return the stream in the store; None if there is none of this key and version."""
        assert self._store is not None
        get, loop = self._store.get, asyncio.get_running_loop()
        try:
            data = await loop.run_in_executor(self._threads, get, token)
            if data is None or len(data) == MARK:  # there is none, or it has ended
                return None
            most = self._settings.transcript_characters
            found = DetachedStream.from_bytes(
                self._signer.checked(data[MARK:], name_of(token)), most
            )
        except StoreError as error:
            self._failed(error)
            return None
        except (ProtocolError, SnapshotError) as error:
            logger.warning("stored stream refused", extra={"reason": str(error)})
            return None
        self._marks[token] = data[:MARK]
        return found

    def _failed(self, error: StoreError) -> None:
        logger.warning("store failed", extra={"reason": str(error)})
        self._failures.inc()

    def _forget(self, token: str) -> Held | None:
        held = self._detached.pop(token, None)
        if held is not None:
            held.timer.cancel()
        return held

    def _expire(self, token: str) -> None:
        self._forget(token)
        self._marks.pop(token, None)
