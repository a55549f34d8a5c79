"""The one thread that owns the model and steps all live streams together.

The event loop hands samples in and gets characters back; it never touches the model. The thread
sleeps until a stream has a step's worth of audio, gathers one step of every stream that has one,
runs them as one batch, and hands over what was written. A stream that has more audio waiting
takes one step at a time like every other, so an upload does not hold up live speech.
docs/engine.md describes batching and admission.
"""

import asyncio
import gc
import logging
import sys
import threading
from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from model.audio import Resampler
from model.backend import Online
from model.endpoint import RULES
from model.kept import Kept
from model.listener import Listener
from model.stream import Character, Samples, spelt, step_time
from model.suspension import unwrap
from model.utterances import Endpoint, Utterances
from server.backlog import NOTHING, Backlog, Steps
from server.capacity import Capacity
from server.metrics import Metrics

logger = logging.getLogger(__name__)

PIECE_SECONDS = 0.25  # a large message is resampled piecewise, so as not to hold up the event loop
TURN_SECONDS = 0.001  # that the event loop may hold Python's lock while the engine wants it


class EngineFull(Exception):
    """No further stream is let in."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"expected at most {limit} streams at once, got one more")
        self.limit = limit


class Update(NamedTuple):
    """What steps gave one stream: characters, the end of an utterance, or its own."""

    characters: list[Character]
    position: float  # seconds of audio that the characters so far rest on
    finished: bool  # nothing follows
    failed: bool = False
    endpoint: Endpoint | None = None  # after the characters
    kept: Kept | None = None  # the stream itself, which was suspended: nothing follows


class EngineStream:
    """One live stream in its slot of the engine; the event loop calls its methods."""

    def __init__(
        self, engine: "Engine", slot: int, sample_rate: int, listener: Callable[[Update], None]
    ) -> None:
        self.slot = slot
        self.listener = listener
        self.utterances = Utterances(engine.online.vocabulary.spaced)
        self.waits = False  # for room
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
        self.waits = True
        self._room.clear()

    def wake(self) -> None:
        """Let `push` go on."""
        self._room.set()


class Engine:
    """Slots for live streams, and the thread that steps them."""

    def __init__(
        self,
        online: Online,
        metrics: Metrics,
        *,
        max_streams: int,
        buffer_seconds: float,
        threads: int = 0,
        headroom: float = 0.2,
        batch: int | None = None,
    ) -> None:
        """Make slots.

        Args:
            online: the recogniser.
            metrics: what is counted.
            max_streams: slots.
            buffer_seconds: of audio that wait for the model, per stream.
            threads: of the model; 0 leaves it to the backend.
            headroom: share of the time kept free by admission; 1 for no limit but the slots.
            batch: most streams in one step; as many as there are if None.
        """
        self.online = online
        self._batch = batch or max_streams
        self._metrics = metrics
        # Less than a step may stay for ever, and the resampler gives more than a piece at a time.
        seconds = max(buffer_seconds, 4 * PIECE_SECONDS)
        self._backlog = Backlog(max_streams, seconds, online.flush_steps)
        self._slots: list[EngineStream | None] = [None] * max_streams
        self._free = list(reversed(range(max_streams)))
        self._fresh = np.zeros(max_streams, np.bool_)  # the slot's state is the last owner's
        self._parted = np.ones(max_streams, np.bool_)  # into utterances
        self._resumed: dict[int, Kept] = {}  # by slot, until its first step
        self._leaving: set[int] = set()  # slots that are suspended once all is heard
        self._condition = threading.Condition()  # guards the slots and the backlog
        self._asleep = False  # until audio comes
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._streams = Listener(online, max_streams, threads)  # the thread's own once it runs
        # The first steps set up what later ones find: nobody should wait for it.
        self.capacity = Capacity(max_streams, headroom)
        self._limit(self.capacity.measure(online, self._streams.table.threads))

    @property
    def active(self) -> int:
        """The number of live streams."""
        return len(self._slots) - len(self._free)

    @property
    def alive(self) -> bool:
        """Whether streams are being stepped."""
        return self._thread.is_alive() and not self._stopping

    def start(self) -> None:
        """Start the thread; results go to the running event loop.

        What is loaded by now stays. It is taken out of the garbage collector's sight: to walk over
        all of it for a few new objects takes a tenth of a second, in which nobody is stepped.
        """
        self._loop = asyncio.get_running_loop()
        sys.setswitchinterval(TURN_SECONDS)
        gc.collect()
        gc.freeze()
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread after the step that it is taking; streams that are left hear no more."""
        with self._condition:
            self._stopping = True
            self._condition.notify()
        if self._thread.is_alive():
            self._thread.join()
        gc.unfreeze()

    def open(
        self,
        sample_rate: int,
        listener: Callable[[Update], None],
        *,
        endpoints: bool = True,
        kept: Kept | None = None,
    ) -> EngineStream:
        """Return a stream; `listener` is called on the event loop with each of its updates.

        With `endpoints` a new one is parted into utterances; `kept` is one to go on with.

        Raises:
            EngineFull: there is no free slot, or one stream more could not be carried.
            SuspensionError: what was kept is damaged, or of another model.
        """
        if kept is not None:
            unwrap(self.online.digest, kept.listener.state, self._streams.table.bytes_per_stream)
        with self._condition:
            if self.active >= self.capacity.streams:
                raise EngineFull(self.capacity.streams)
            slot = self._free.pop()
            stream = self._slots[slot] = EngineStream(self, slot, sample_rate, listener)
            self._backlog.open(slot)
            self._fresh[slot], self._parted[slot] = True, endpoints
            if kept is not None:
                self._resumed[slot] = kept
                self._backlog.resume(slot, kept.counts, kept.samples, perf_counter())
                stream.utterances.resume(kept.utterances)
        self._metrics.active.inc()
        return stream

    def hear(self, stream: EngineStream, samples: Samples, now: float | None = None) -> bool:
        """Take (N,) samples at 16 kHz for `stream` if its buffer has room for them.

        They came `now`, by `perf_counter`; that is now if not given.
        """
        with self._condition:
            if self._slots[stream.slot] is not stream:
                return True  # nobody's any more
            if not self._backlog.push(stream.slot, samples, now or perf_counter()):
                stream.wait_for_room()
                return False
            self._wake()
        return True

    def end(self, stream: EngineStream, samples: Samples) -> None:
        """Take the last (N,) samples of `stream`."""
        with self._condition:
            if self._slots[stream.slot] is stream:
                now = perf_counter()
                self._backlog.finish(stream.slot, samples, now)
                self._wake()

    def suspend(self, stream: EngineStream, samples: Samples) -> None:
        """Take (N,) samples, for which room is made; tell `stream` what it is once all is heard."""
        with self._condition:
            if self._slots[stream.slot] is stream:
                self._backlog.push(stream.slot, samples, perf_counter(), forced=True)
                self._leaving.add(stream.slot)
                self._wake()

    def buffered(self, stream: EngineStream) -> int:
        """Return the samples that wait for a step of `stream`."""
        return self._backlog.buffered(stream.slot)

    def close(self, stream: EngineStream) -> None:
        """Free the slot of `stream`, if it is still its own."""
        with self._condition:
            if self._slots[stream.slot] is not stream:
                return
            self._slots[stream.slot] = None
            self._leaving.discard(stream.slot)
            self._resumed.pop(stream.slot, None)
            self._free.append(stream.slot)
            self._backlog.close(stream.slot)
        self._metrics.active.dec()

    def _wake(self) -> None:
        if self._asleep:
            self._asleep = False
            self._condition.notify()

    def _run(self) -> None:
        try:
            while (steps := self._gather()) is not None:
                self._advance(steps)
        finally:
            if not self._stopping:
                self._fail([stream for stream in self._slots if stream])

    def _limit(self, cost: float) -> None:
        self._metrics.cost.set(cost)
        self._metrics.capacity.set(self.capacity.streams)

    def _gather(self) -> Steps | None:
        """Return one step of every stream that has one; sleep until there is any."""
        with self._condition:
            while not self._stopping:
                for slot in [one for one in self._leaving if self._backlog.drained(one)]:
                    self._let_go(slot)
                rows = self._backlog.ready()
                if len(rows):
                    since = self._backlog.waiting_since(rows)
                    if (wait := since.min() + self.capacity.window - perf_counter()) <= 0:
                        if len(rows) > self._batch:
                            rows = np.sort(rows[np.argsort(since)[: self._batch]])
                        begin = self._begin(rows[self._fresh[rows]])
                        steps = self._backlog.take(rows)
                        break
                    self._condition.wait(wait)
                else:
                    self._asleep = True
                    self._condition.wait()
            else:
                return None
        begin()
        return steps

    def _begin(self, fresh: NDArray[np.int64]) -> Callable[[], None]:
        """Return what gives (R,) slots their owners' states; it needs no lock."""
        self._fresh[fresh], parted = False, self._parted[fresh]
        resumed = [(row, self._resumed.pop(row)) for row in fresh.tolist() if row in self._resumed]

        def begin() -> None:
            if len(fresh):
                self._streams.reset(fresh, parted)
            for row, kept in resumed:
                self._streams.resume(row, kept.listener)

        return begin

    def _let_go(self, slot: int) -> None:
        """Tell the stream in a slot, which has no step left, what it is."""
        self._leaving.remove(slot)
        stream = self._slots[slot]
        assert stream is not None
        if self._fresh[slot]:
            self._begin(np.array([slot]))()
        counts, samples = self._backlog.suspend(slot)
        listener, utterances = self._streams.suspend(slot), stream.utterances.suspend()
        kept = Kept(RULES, counts, samples, listener, utterances)
        self._deliver([(stream, Update([], kept.position, True, kept=kept))], [])

    def _advance(self, steps: Steps) -> None:
        """Step streams as one batch and hand what they wrote to the event loop."""
        started = perf_counter()
        try:
            symbols, ends = self._streams.step(steps.samples, steps.rows)
        except Exception:  # whatever it is, the other streams go on
            logger.exception("step failed", extra={"streams": len(steps.rows)})
            with self._condition:
                owned = self._backlog.count(steps)
                failed = [self._slots[row] for row in steps.rows[owned].tolist()]
            self._fail([stream for stream in failed if stream])
            return
        ended = perf_counter()
        if self.capacity.observe(len(steps.rows), started, ended):
            self._limit(self.capacity.cost)
        self._metrics.step.observe(ended - started)
        self._metrics.batch.observe(len(steps.rows))
        delays = ended - steps.arrivals
        self._metrics.delay.observe_many(delays[~np.isnan(delays)])
        with self._condition:
            updates, room = self._updates(steps, symbols, ends)
        if updates or room:
            self._deliver(updates, room)

    def _updates(
        self, steps: Steps, symbols: NDArray[np.int32], ends: NDArray[np.bool_]
    ) -> tuple[list[tuple[EngineStream, Update]], list[EngineStream]]:
        """Return what to tell whom, and who has waited for room."""
        owned = self._backlog.count(steps)
        finished = self._backlog.finished(steps.rows) & owned
        told = np.flatnonzero(((symbols >= 0).any(1) | ends) & owned | finished)
        rows = steps.rows[told]
        facts = (symbols[told], self._backlog.done[rows], self._backlog.positions(rows))
        columns = (rows, *facts, ends[told], finished[told])  # plain numbers are quicker to handle
        updates = []
        for row, *fact in zip(*(column.tolist() for column in columns), strict=True):
            if stream := self._slots[row]:
                updates.append((stream, self._update(stream, *fact)))
        self._metrics.characters.inc(sum(len(update.characters) for _, update in updates))
        room = [s for row in steps.rows.tolist() if (s := self._slots[row]) and s.waits]
        for stream in room:
            stream.waits = False
        return updates, room

    def _update(
        self,
        stream: EngineStream,
        symbols: list[int],
        done: int,
        position: float,
        ended: bool,
        finished: bool,
    ) -> Update:
        time = step_time(done - 1, self.online.delay_steps)
        written = spelt(self.online.vocabulary, symbols, time)
        characters, endpoint = stream.utterances.hear(written, ended)
        return Update(characters, position, finished, endpoint=endpoint)

    def _fail(self, streams: list[EngineStream]) -> None:
        self._deliver([(stream, Update([], 0.0, True, failed=True)) for stream in streams], [])

    def _deliver(
        self, updates: list[tuple[EngineStream, Update]], room: list[EngineStream]
    ) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._tell, updates, room)

    def _tell(self, updates: list[tuple[EngineStream, Update]], room: list[EngineStream]) -> None:
        """Tell each stream its update, unless its slot has been given back or on."""
        for stream in room:
            stream.wake()
        for stream, update in updates:
            if self._slots[stream.slot] is stream:
                stream.listener(update)
