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
from functools import partial
from time import perf_counter

import numpy as np

from cortado.model.backends.choice import Online
from cortado.model.streaming.listener import Listener
from cortado.model.streaming.snapshot import Snapshot
from cortado.model.streaming.stream import Samples
from cortado.model.streaming.update import FAILED, Update
from cortado.model.streaming.vad import Vad
from cortado.server.backlog import Backlog, Steps
from cortado.server.capacity import Capacity
from cortado.server.live_stream import PIECE_SECONDS, EngineStream
from cortado.server.metrics import Metrics
from cortado.server.slots import Slots
from cortado.server.telling import Leaving, Written

logger = logging.getLogger(__name__)

TURN_SECONDS = 0.001  # that the event loop may hold Python's lock while the engine wants it


class EngineFull(Exception):
    """No further stream is let in."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"expected at most {limit} streams at once, got one more")
        self.limit = limit


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
        vad: Vad | None = None,
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
            vad: what hears the streams too, and has a say in where utterances end.
        """
        self.online = online
        self._batch = batch or max_streams
        self._metrics = metrics
        # Less than a step may stay for ever, and the resampler gives more than a piece at a time.
        seconds = max(buffer_seconds, 4 * PIECE_SECONDS)
        self._backlog = Backlog(max_streams, seconds, online.flush_steps)
        self._slots = Slots(max_streams, self._backlog)
        self._condition = threading.Condition()  # guards the slots and the backlog
        self._asleep = False  # until audio comes
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._streams = Listener(online, max_streams, threads, vad=vad)  # the thread's own
        # The first steps set up what later ones find: nobody should wait for it.
        self.capacity = Capacity(max_streams, headroom)
        self._limit(self.capacity.measure(online, self._streams.table.threads, vad))

    @property
    def active(self) -> int:
        """The number of live streams."""
        return self._slots.taken

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
        snapshot: Snapshot | None = None,
    ) -> EngineStream:
        """Return a stream; `listener` is called on the event loop with each of its updates.

        With `endpoints` a new one is parted into utterances; `snapshot` is one to go on with.

        Raises:
            EngineFull: there is no free slot, or one stream more could not be carried.
            SnapshotError: the snapshot is damaged, or of another model or detector.
        """
        if snapshot is not None:
            snapshot.check(self.online.name, self.online.digest)
            self._streams.check(snapshot.listener)
        make = partial(EngineStream, self, sample_rate=sample_rate, listener=listener)
        with self._condition:
            if self.active >= self.capacity.streams:
                raise EngineFull(self.capacity.streams)
            stream = self._slots.open(make, endpoints, snapshot, perf_counter())
        self._metrics.active.inc()
        return stream

    def hear(self, stream: EngineStream, samples: Samples, now: float | None = None) -> bool:
        """Take (N,) samples at 16 kHz for `stream` if its buffer has room for them.

        They came `now`, by `perf_counter`; that is now if not given.
        """
        with self._condition:
            if not self._slots.holds(stream):
                return True  # nobody's any more
            if not self._backlog.push(stream.slot, samples, now or perf_counter()):
                self._slots.wait(stream)
                return False
            self._wake()
        return True

    def end(self, stream: EngineStream, samples: Samples) -> None:
        """Take the last (N,) samples of `stream`."""
        with self._condition:
            if self._slots.holds(stream):
                self._backlog.finish(stream.slot, samples, perf_counter())
                self._wake()

    def suspend(self, stream: EngineStream, samples: Samples) -> None:
        """Take (N,) samples, for which room is made; tell `stream` what it is once all is heard."""
        with self._condition:
            if self._slots.holds(stream):
                self._backlog.push(stream.slot, samples, perf_counter(), forced=True)
                self._slots.leave(stream.slot)
                self._wake()

    def buffered(self, stream: EngineStream) -> int:
        """Return the samples that wait for a step of `stream`."""
        return self._backlog.buffered(stream.slot)

    def close(self, stream: EngineStream) -> None:
        """Free the slot of `stream`, if it is still its own."""
        with self._condition:
            if not self._slots.holds(stream):
                return
            self._slots.close(stream.slot)
        self._metrics.active.dec()

    def _wake(self) -> None:
        if self._asleep:
            self._asleep = False
            self._condition.notify()

    def _limit(self, cost: float) -> None:
        self._metrics.cost.set(cost)
        self._metrics.capacity.set(self.capacity.streams)

    def _run(self) -> None:
        try:
            while (steps := self._gather()) is not None:
                self._advance(steps)
        finally:
            if not self._stopping:
                self._call(self._fail, self._slots.streams)

    def _gather(self) -> Steps | None:
        """Return one step of every stream that has one; sleep until there is any."""
        with self._condition:
            while not self._stopping:
                for leaving in self._slots.left(self._streams):
                    self._call(self._let_go, leaving)
                rows = self._backlog.ready()
                if len(rows):
                    since = self._backlog.waiting_since(rows)
                    if (wait := since.min() + self.capacity.window - perf_counter()) <= 0:
                        if len(rows) > self._batch:
                            rows = np.sort(rows[np.argsort(since)[: self._batch]])
                        beginnings = self._slots.begin(rows)
                        steps = self._backlog.take(rows)
                        break
                    self._condition.wait(wait)
                else:
                    self._asleep = True
                    self._condition.wait()
            else:
                return None
        beginnings.give(self._streams)
        return steps

    def _advance(self, steps: Steps) -> None:
        """Step streams as one batch and hand what they wrote to the event loop."""
        started = perf_counter()
        try:
            symbols, ends = self._streams.step(steps.samples, steps.rows)
        except Exception:  # whatever it is, the other streams go on
            logger.exception("step failed", extra={"streams": len(steps.rows)})
            with self._condition:
                failed = self._slots.owners(steps)
            self._call(self._fail, failed)
            return
        ended = perf_counter()
        with self._condition:
            written = self._slots.written(steps, symbols, ends)
            woken = self._slots.woken(steps.rows)
        if written.streams or woken:
            self._call(self._tell, written, woken)
        self._observe(steps, started, ended)

    def _observe(self, steps: Steps, started: float, ended: float) -> None:
        """Count a batch that took from `started` to `ended`."""
        if self.capacity.observe(len(steps.rows), started, ended):
            self._limit(self.capacity.cost)
        self._metrics.step.observe(ended - started)
        self._metrics.batch.observe(len(steps.rows))
        delays = ended - steps.arrivals
        self._metrics.delay.observe_many(delays[~np.isnan(delays)])

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        """Have one of the next three run on the event loop, in order."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(function, *arguments)

    def _tell(self, written: Written, woken: list[EngineStream]) -> None:
        """Tell each stream its update, unless its slot has been given back or on."""
        for stream in woken:
            stream.wake()
        characters = 0
        for stream, update in written.updates(self.online.vocabulary, self.online.delay_steps):
            characters += len(update.characters)
            if self._slots.holds(stream):
                stream.listener(update)
        self._metrics.characters.inc(characters)

    def _let_go(self, leaving: Leaving) -> None:
        """Tell a stream, which has no step left, what it is."""
        if self._slots.holds(leaving.stream):
            leaving.stream.listener(leaving.update())

    def _fail(self, streams: list[EngineStream]) -> None:
        """Tell streams that they cannot go on."""
        for stream in streams:
            if self._slots.holds(stream):
                stream.listener(FAILED)
