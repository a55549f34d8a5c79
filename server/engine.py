"""The one thread that owns the model and steps all live streams together.

The event loop hands samples in and gets characters back; it never touches a tensor. The thread
sleeps until a stream has a step's worth of audio, gathers one step of every stream that has one,
runs them as one batch, and hands the results back in one call. A stream that has more audio waiting
takes one step at a time like every other, so an upload does not hold up live speech.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import NamedTuple

import numpy as np
import torch

from model.audio import Resampler
from model.features import SAMPLE_RATE, SAMPLES_PER_STEP
from model.online import Character, OnlineRecognizer, Samples, put, select
from server.metrics import Metrics

logger = logging.getLogger(__name__)

PIECE_SECONDS = 0.25  # a large message is resampled piecewise, so as not to hold up the event loop


class EngineFull(Exception):
    """Every slot is taken."""


class Update(NamedTuple):
    """What one step gave one stream."""

    characters: list[Character]
    position: float  # seconds of audio that the characters so far rest on
    finished: bool  # nothing follows
    failed: bool = False


class EngineStream:
    """One live stream in its slot of the engine; the event loop calls its methods."""

    def __init__(
        self, engine: "Engine", slot: int, sample_rate: int, listener: Callable[[Update], None]
    ) -> None:
        self.slot = slot
        self.fresh = True  # the slot's row of the state is still the last owner's
        self.listener = listener
        self.stream = engine.online.stream()
        self.arrivals: deque[float] = deque()  # when each step that waits was complete
        self._engine = engine
        self._piece = max(1, int(sample_rate * PIECE_SECONDS))
        self._resampler = Resampler(sample_rate)
        self._room = asyncio.Event()

    async def push(self, samples: Samples) -> None:
        """Hear (N,) samples at the stream's rate; wait while the buffer is full."""
        for start in range(0, len(samples), self._piece):
            piece = self._resampler.push(samples[start : start + self._piece])
            while not self._engine.hear(self, piece):
                self._room.clear()
                await self._room.wait()
            await asyncio.sleep(0)  # others' turn

    def end(self) -> None:
        """Hear nothing more."""
        self._engine.end(self, self._resampler.finish())

    def close(self) -> None:
        """Give the slot back; nothing is heard or told any more."""
        self._engine.close(self)

    def tell(self, update: Update) -> None:
        """Pass on what a step gave; wake whoever waits for room."""
        self._room.set()
        self.listener(update)


class Engine:
    """Slots for live streams, and the thread that steps them."""

    def __init__(
        self,
        online: OnlineRecognizer,
        metrics: Metrics,
        *,
        max_streams: int,
        buffer_seconds: float,
        threads: int = 1,
    ) -> None:
        self.online = online
        self._metrics = metrics
        # Less than a step may stay for ever, and the resampler gives more than a piece at a time.
        self._buffer = int(max(buffer_seconds, 4 * PIECE_SECONDS) * SAMPLE_RATE)
        self._threads = threads
        self._slots: list[EngineStream | None] = [None] * max_streams
        self._condition = threading.Condition()  # guards the slots and the streams in them
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._state = online.initial_state(max_streams)  # the thread's own once it runs

    @property
    def active(self) -> int:
        """The number of live streams."""
        return sum(stream is not None for stream in self._slots)

    @property
    def alive(self) -> bool:
        """Whether streams are being stepped."""
        return self._thread.is_alive() and not self._stopping

    def start(self) -> None:
        """Start the thread; results go to the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread after the step that it is taking; streams that are left hear no more."""
        with self._condition:
            self._stopping = True
            self._condition.notify()
        if self._thread.is_alive():
            self._thread.join()

    def open(self, sample_rate: int, listener: Callable[[Update], None]) -> EngineStream:
        """Return a new stream; `listener` is called on the event loop with each of its updates.

        Raises:
            EngineFull: there is no free slot.
        """
        with self._condition:
            if None not in self._slots:
                raise EngineFull
            slot = self._slots.index(None)
            stream = self._slots[slot] = EngineStream(self, slot, sample_rate, listener)
        self._metrics.active.inc()
        return stream

    def hear(self, stream: EngineStream, samples: Samples) -> bool:
        """Take (N,) samples at 16 kHz for `stream` if its buffer has room for them."""
        with self._condition:
            before = stream.stream.buffered
            if before + len(samples) > self._buffer:
                return False
            stream.stream.push(samples)
            steps = stream.stream.buffered // SAMPLES_PER_STEP - before // SAMPLES_PER_STEP
            if steps:
                stream.arrivals.extend([perf_counter()] * steps)
                self._condition.notify()
        return True

    def end(self, stream: EngineStream, samples: Samples) -> None:
        """Take the last (N,) samples of `stream`."""
        with self._condition:
            stream.stream.push(samples)
            stream.stream.end()
            self._condition.notify()

    def close(self, stream: EngineStream) -> None:
        """Free the slot of `stream`, if it is still its own."""
        with self._condition:
            if self._slots[stream.slot] is not stream:
                return
            self._slots[stream.slot] = None
        self._metrics.active.dec()

    def _run(self) -> None:
        torch.set_num_threads(self._threads)
        try:
            with torch.inference_mode():
                # The first step of all sets up what later ones find: nobody should wait for it.
                self.online.step(torch.zeros(1, SAMPLES_PER_STEP), self.online.initial_state(1))
                while batch := self._gather():
                    self._advance(*zip(*batch, strict=True))
        finally:
            if not self._stopping:
                self._fail([stream for stream in self._slots if stream])

    def _gather(self) -> list[tuple[EngineStream, Samples]]:
        """Return one step of every stream that has one; sleep until there is any."""
        with self._condition:
            while not self._stopping:
                batch = list(self._steps())
                if batch:
                    return batch
                self._condition.wait()
        return []

    def _steps(self) -> Iterator[tuple[EngineStream, Samples]]:
        for stream in self._slots:
            if stream and (samples := stream.stream.next_step()) is not None:
                yield stream, samples

    def _advance(self, streams: tuple[EngineStream, ...], steps: tuple[Samples, ...]) -> None:
        """Step `streams` as one batch and hand the results to the event loop."""
        started = perf_counter()
        try:
            symbols = self._step(streams, steps)
        except Exception:  # whatever it is, the other streams go on
            logger.exception("step failed", extra={"streams": len(streams)})
            self._fail(list(streams))
            return
        self._metrics.step.observe(perf_counter() - started)
        self._metrics.batch.observe(len(streams))
        with self._condition:
            updates = [
                self._update(stream, row) for stream, row in zip(streams, symbols, strict=True)
            ]
        self._deliver(list(zip(streams, updates, strict=True)))

    def _step(
        self, streams: tuple[EngineStream, ...], steps: tuple[Samples, ...]
    ) -> list[list[int]]:
        """Return the symbols that each stream's step gives."""
        rows = [stream.slot for stream in streams]
        fresh = [stream.slot for stream in streams if stream.fresh]
        state = self._state
        if fresh:
            state = put(state, fresh, self.online.initial_state(len(fresh)))
        samples = torch.from_numpy(np.stack(steps))
        symbols, part = self.online.step(samples, select(state, rows))
        self._state = put(state, rows, part)
        for stream in streams:
            stream.fresh = False
        return symbols.tolist()

    def _update(self, stream: EngineStream, symbols: list[int]) -> Update:
        characters = stream.stream.emitted(symbols)
        self._metrics.characters.inc(len(characters))
        if stream.arrivals:
            self._metrics.delay.observe(perf_counter() - stream.arrivals.popleft())
        return Update(characters, stream.stream.position, stream.stream.finished)

    def _fail(self, streams: list[EngineStream]) -> None:
        self._deliver([(stream, Update([], 0.0, True, failed=True)) for stream in streams])

    def _deliver(self, updates: list[tuple[EngineStream, Update]]) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._tell, updates)

    def _tell(self, updates: list[tuple[EngineStream, Update]]) -> None:
        """Tell each stream its update, unless its slot has been given back or on."""
        for stream, update in updates:
            if self._slots[stream.slot] is stream:
                stream.tell(update)
