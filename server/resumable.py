"""Streams that can be resumed, by token: connected ones and detached ones."""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import NamedTuple, TypeVar
from weakref import WeakValueDictionary

from prometheus_client import Counter

from cortado.model.streaming.snapshot import SnapshotError
from cortado.server.detached import DetachedStream
from cortado.server.protocol.messages import ProtocolError
from cortado.server.settings import Settings
from cortado.server.signing import Signer
from cortado.server.store import MARK, Store, StoreError, name_of
from cortado.server.threads import NoThreadError, in_thread

STORE_THREADS = 8  # of its own: one that hangs holds up no upload, which has threads as well
STORE_SECONDS = 2.0  # that a call of the store may take; a shutdown lasts 5 s
MAX_MARKS = 8  # of writes of one stream that failed

T = TypeVar("T")
logger = logging.getLogger(__name__)


class Held(NamedTuple):
    """A detached stream in this process."""

    stream: DetachedStream
    timer: asyncio.TimerHandle  # that forgets it
    is_stored: bool


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
        # by token, of what this process has in the store: of its last write, and of later ones that
        # failed and may have been done
        self._marks: dict[str, tuple[bytes, ...]] = {}
        self._claims: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by token
        # by token, of streams whose step failed: how many steps, up to it, each takes by itself
        self.suspected: dict[str, int] = {}
        self._free = asyncio.Semaphore(STORE_THREADS)
        self._fails = False  # the last call of the store failed

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

    async def close(self) -> None:
        """Let go of the store, and say how many streams it does not have."""
        if self._store is None:
            return
        if lost := sum(not held.is_stored for held in self._detached.values()):
            logger.warning("streams not saved", extra={"streams": lost})
        with suppress(StoreError):  # it ends with the process
            await self._ask(self._store.close)

    async def put(self, token: str, stream: DetachedStream) -> None:
        """Hold a detached stream; where there are too many, the oldest is forgotten."""
        if not self.enabled:
            return
        is_stored = await self.save(token, stream.to_bytes()) if self._store else None
        if is_stored is False:
            return  # another server has it
        if len(self._detached) >= self._settings.keep_streams:
            self._expire(next(iter(self._detached)))
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._settings.keep_seconds, self._expire, token)
        self._detached[token] = Held(stream, timer, bool(is_stored))

    async def save(self, token: str, data: bytes) -> bool | None:
        """Put a stream into the store; return whether it is this server's, None if that fails."""
        return await self._write(token, self._signer.signed(data, name_of(token)))

    async def _write(self, token: str, data: bytes) -> bool | None:
        assert self._store is not None
        written = secrets.token_bytes(MARK) + data
        seconds = self._settings.keep_seconds + self._settings.save_seconds
        known = self._marks.get(token, ())
        try:
            is_own = await self._ask(self._store.put, token, written, seconds, *known)
        except StoreError as error:  # it harms nobody here
            self._failed(error)
            self._marks[token] = (*known[:1], *known[1:][-MAX_MARKS:], written[:MARK])
            return None
        if is_own:
            self._marks[token] = (written[:MARK],)
        else:
            self._marks.pop(token, None)
        return is_own

    def release(self, token: str) -> None:
        """Note that a stream has lost its connection; forget it unless it is held here."""
        del self.attached[token]
        if token not in self._detached:
            self._marks.pop(token, None)

    def suspect(self, token: str, steps: int) -> None:
        """Note that one of so many steps of a stream may fail those of others, while it is held."""
        self.suspected[token] = steps
        seconds = self._settings.keep_seconds + self._settings.save_seconds
        asyncio.get_running_loop().call_later(seconds, self.suspected.pop, token, None)

    async def drop(self, token: str) -> None:
        """Hold a stream no longer: it has ended, and no server that had it may go on with it."""
        if self._store and token in self._marks:
            await self._write(token, b"")

    @asynccontextmanager
    async def claimed(self, token: str) -> AsyncIterator[DetachedStream | None]:
        """Take a stream out, from its connection if it has one; give None if there is no such.

        Of several servers at which a stream is claimed one gets it, and of several claims here the
        last: a client comes again before the server has noticed that it was gone. An error within
        the block puts the stream back; the next claim waits for that.
        """
        async with self._claims.setdefault(token, asyncio.Lock()):
            if detach := self.attached.get(token):
                await detach()
            found = await self._taken(token)
            try:
                yield found
            except BaseException:
                if found:
                    await self.put(token, found)
                raise

    async def _taken(self, token: str) -> DetachedStream | None:
        held = self._forget(token)
        if self._store is None:
            return held.stream if held else None
        if held and await self.save(token, held.stream.to_bytes()) is not False:
            return held.stream
        # If it was held here, it has gone on at another server since.
        found = await self._found(token)
        if found and await self.save(token, found.to_bytes()) is False:
            return None  # another server was quicker
        return found

    async def _found(self, token: str) -> DetachedStream | None:
        """Return the stream in the store; None if there is none of this key and version."""
        assert self._store is not None
        try:
            data = await self._ask(self._store.get, token)
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
        self._marks[token] = (data[:MARK],)
        return found

    async def _ask(self, call: Callable[..., T], *arguments: object) -> T:
        """Return what a call of the store returns, made in a thread of its own.

        One that hangs is left alone, and ends with the process.

        Raises: StoreError if it fails, or does not end in STORE_SECONDS.
        """
        try:
            if self._fails and self._free.locked():
                raise TimeoutError  # all threads hang, as it seems
            async with asyncio.timeout(STORE_SECONDS):
                await self._free.acquire()
                answer = in_thread(partial(call, *arguments), "store")
                answer.add_done_callback(self._answered)
                await asyncio.wait([answer])  # which does not cancel it
                return answer.result()
        except TimeoutError:
            self._fails = True
            expected = f"expected an answer in {STORE_SECONDS:g} s"
            raise StoreError(f"{expected}, got none") from None
        except NoThreadError as error:
            raise StoreError(str(error)) from None

    def _answered(self, answer: asyncio.Future[T]) -> None:
        """Note that a thread is free again."""
        self._fails = answer.exception() is not None
        self._free.release()

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
