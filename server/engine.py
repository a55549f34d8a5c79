"""The engine: one thread owns the model and steps all live streams together.

A pool holds the streams. The event loop passes samples in and gets updates back; it never touches
the model. The thread sleeps until a stream has audio for a step, takes one step of every such
stream, runs them as one batch, and hands the updates over. A stream with more audio waiting still
takes one step at a time, so an upload does not hold up live speech.
docs/engine.md describes batching and admission.
"""

import asyncio
import gc
import logging
import sys
import threading
from collections.abc import Callable
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from cortado.model.arrays import Rows, Samples
from cortado.model.features.framing import SAMPLE_RATE, SAMPLES_PER_STEP
from cortado.model.streaming.interface import StreamingRecognizer
from cortado.model.streaming.pool import Batch, Pool
from cortado.model.streaming.snapshot import Snapshot
from cortado.model.streaming.update import FAILED, Results, Update
from cortado.model.streaming.vad import Vad
from cortado.server.arrivals import Arrivals
from cortado.server.capacity import Capacity
from cortado.server.engine_stream import PIECE_SECONDS, EngineStream, Intake, OnSaved
from cortado.server.memory import freeze
from cortado.server.metrics import Metrics
from cortado.server.protocol.messages import Start

logger = logging.getLogger(__name__)

NOTHING = np.zeros(0)
SPARE = 100  # steps beyond a full buffer: the resampler's last samples, and one of silence
STALLED_SECONDS = 1.5  # after so long in one step the model counts as stuck: no stream is let in
HANGING_SECONDS = 20.0  # after so long it is given up
STOP_SECONDS = 1.0  # that the last step may take once the engine is to stop
TURN_SECONDS = 0.0002  # that the event loop may hold Python's lock while the engine wants it


class EngineFull(Exception):
    """The engine admits no further stream."""


class Engine:
    """Rows for live streams, and the thread that steps them."""

    def __init__(
        self,
        recognizer: StreamingRecognizer,
        metrics: Metrics,
        *,
        max_streams: int,
        buffer_seconds: float,
        threads: int = 0,
        headroom: float = 0.2,
        vad: Vad | None = None,
        elsewhere: Callable[[], int] = lambda: 0,
    ) -> None:
        """Make rows.

        Args:
            recognizer: the model in a backend.
            metrics: the server's counters.
            max_streams: number of rows.
            buffer_seconds: most audio of a stream that waits for the model.
            threads: of the model; 0 leaves it to the backend.
            headroom: share of the time kept free by admission; 1 for no limit but the rows.
            vad: a voice activity detector, for endpoints.
            elsewhere: returns how many streams other engines of this machine still have.
        """
        self.recognizer = recognizer
        if recognizer.beam.words.spells:
            recognizer.g2p.learn()  # before streams come, which would be held up
        self._metrics, self._elsewhere = metrics, elsewhere
        # Part of a step may stay in it, and the resampler returns more than one piece at a time.
        self._room = int(max(buffer_seconds, 4 * PIECE_SECONDS) * SAMPLE_RATE)
        self._pool = Pool(recognizer, max_streams, threads=threads, vad=vad)
        most = self._room // SAMPLES_PER_STEP + recognizer.flush_steps + SPARE
        self._arrivals = Arrivals(max_streams, most)
        self._streams: list[EngineStream | None] = [None] * max_streams  # by row
        self._waits = np.zeros(max_streams, np.bool_)  # rows whose senders wait for space
        self._leaving: set[int] = set()  # rows to suspend once all their steps are done
        self._watched: set[int] = set()  # rows whose streams want to know when that is
        # by row: who wants a snapshot of a stream that goes on
        self._saving: dict[int, OnSaved] = {}
        self._failed: set[int] = set()  # rows that are stepped no more; their streams are told
        self._apart = np.zeros(max_streams, np.int64)  # by row: steps in no batch with others'
        self._is_apart = False  # the batch is such a step
        self._condition = threading.Condition()  # guards the rows and the pool, except its step
        self._asleep = False  # until audio comes
        self._busy_since: float | None = None  # by `perf_counter`; None while it waits for audio
        self._stopping, self._has_ended = False, False
        self._retired = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        # Measuring also warms the model up, so that no client waits for its first step.
        self.capacity = Capacity(max_streams, headroom)
        self._pool.warm()
        self.capacity.measure(recognizer, self._pool.stepper.threads, vad)

    @property
    def active(self) -> int:
        """The number of live streams."""
        return len(self._streams) - self._pool.free

    @property
    def running(self) -> bool:
        """Whether the thread is there, which it still is where a step has not ended by `stop`."""
        return self._thread.is_alive()

    @property
    def alive(self) -> bool:
        """Whether streams are being stepped."""
        return self.running and not self._stopping and self._busy_for() < STALLED_SECONDS

    @property
    def stalled(self) -> float:
        """Seconds that the present step has lasted, where the model may yet go on; 0 otherwise."""
        busy = self._busy_for()
        return busy if self.failure is None and busy >= STALLED_SECONDS else 0.0

    @property
    def failure(self) -> str | None:
        """Why the engine will never step a stream again; None if it will."""
        if self._stopping or self._thread.ident is None:
            return None
        if self._has_ended:
            return "its thread has ended"
        if self._busy_for() > HANGING_SECONDS:
            return f"a step has not ended for {HANGING_SECONDS:g} s"
        return None

    def _busy_for(self) -> float:
        since = self._busy_since
        return 0.0 if since is None else perf_counter() - since

    def start(self) -> None:
        """Start the thread; results go to the running event loop."""
        self._loop = asyncio.get_running_loop()
        sys.setswitchinterval(TURN_SECONDS)
        freeze()
        self._report_capacity()
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread after its current step; open streams get no more updates.

        A step that does not end within STOP_SECONDS is left to itself.
        """
        with self._condition:
            self._stopping = True
            self._condition.notify()
        if self.running:
            self._thread.join(STOP_SECONDS)
        gc.unfreeze()

    def open(
        self,
        start: Start,
        on_update: Callable[[Update], None],
        *,
        snapshot: Snapshot | None = None,
        instead_of: EngineStream | None = None,
        apart: int = 0,
    ) -> EngineStream:
        """Return a stream; `on_update` is called on the event loop with each of its updates.

        `snapshot` is a stream to resume. One that begins `instead_of` another has its place, even
        if there are more streams by now than would be let in. Steps up to `apart` are in no batch
        with others': one of them has failed before.

        Raises:
            EngineFull: there is no free row, or no capacity for one more stream.
            SnapshotError: the snapshot is of another model or detector.
            PhrasesError: the phrases are too many, or there is no search that could weigh them.
        """
        most = self.capacity.streams
        if instead_of is None and self.active + self._elsewhere() >= most:
            raise EngineFull(f"expected at most {most} streams at once, got one more")
        self._pool.expected(*start.phrases)  # which takes a while the first time, so not locked
        with self._condition:
            if snapshot is not None:
                self._pool.check(snapshot)
            if instead_of is not None:
                self.close(instead_of)
            row = self._pool.open(start.options, snapshot=snapshot)
            stream = self._streams[row] = EngineStream(self, row, start.sample_rate, on_update)
            self._waits[row], self._apart[row] = False, apart
            waiting = range(int(self._pool.taken(np.array([row]))[0]), self._pool.complete(row))
            self._arrivals.stamp(row, waiting, perf_counter())
        self._metrics.active.inc()
        return stream

    def push(self, stream: EngineStream, samples: Samples, now: float | None = None) -> bool:
        """Add (N,) samples at 16 kHz to `stream`; return False if its buffer is too full.

        They arrived at `now`, by `perf_counter`; the default is the time of the call.
        """
        with self._condition:
            if not self._steps(stream):
                return True  # the stream was closed, or soon is
            if self._pool.waiting(stream.row) + len(samples) > self._room:
                self._waits[stream.row] = True
                stream.space.clear()
                return False
            self._push(stream.row, samples, now or perf_counter())
            stream.intake = stream.coming
            self._wake()
        return True

    def _push(self, row: int, samples: Samples, now: float) -> None:
        """Add samples to a row, whose buffer grows if needed."""
        self._arrivals.stamp(row, self._pool.push(row, samples), now)

    def end(self, stream: EngineStream, samples: Samples) -> None:
        """Add the last (N,) samples to `stream` and end its input."""
        with self._condition:
            if self._steps(stream):
                now = perf_counter()
                self._push(stream.row, samples, now)
                self._arrivals.stamp(stream.row, self._pool.end(stream.row), now)
                self._wake()

    def suspend(self, stream: EngineStream, samples: Samples) -> None:
        """Add (N,) samples to `stream`; once its steps are done, an update has its snapshot."""
        with self._condition:
            if self._steps(stream):
                self._push(stream.row, samples, perf_counter())
                self._leaving.add(stream.row)
                self._wake()

    def save(self, stream: EngineStream, on_saved: OnSaved) -> None:
        """Call `on_saved` with the stream's snapshot, between two of its steps."""
        with self._condition:
            if self._steps(stream):
                self._saving[stream.row] = on_saved
                self._wake()

    def watch(self, stream: EngineStream) -> None:
        """Call `stream.all_done` once all its whole steps are done and their updates delivered."""
        with self._condition:
            if self._steps(stream):
                self._watched.add(stream.row)
                self._wake()

    def close(self, stream: EngineStream) -> None:
        """Free the row of `stream`, if it still has it."""
        with self._condition:
            if not self._holds(stream):
                return
            self._streams[stream.row] = None
            self._forget(stream.row)
            self._failed.discard(stream.row)
            self._pool.close(stream.row)
        self._metrics.active.dec()

    def _forget(self, row: int) -> None:
        """Forget what was to be done once a row's steps are."""
        self._leaving.discard(row)
        self._watched.discard(row)
        self._saving.pop(row, None)

    def _holds(self, stream: EngineStream) -> bool:
        """Return whether `stream` still has its row."""
        return self._streams[stream.row] is stream

    def _steps(self, stream: EngineStream) -> bool:
        """Return whether `stream` still has its row, and none of its steps has failed."""
        return self._holds(stream) and stream.row not in self._failed

    def _wake(self) -> None:
        if self._asleep:
            self._asleep = False
            self._condition.notify()

    def retire(self) -> None:
        """Step the streams that there are; another engine has the new ones, and the gauges."""
        self._retired = True

    def _report_capacity(self) -> None:
        if not self._retired:
            self._metrics.cost.set(self.capacity.cost)
            self._metrics.capacity.set(self.capacity.streams)

    def _run(self) -> None:
        self._busy_since = perf_counter()
        try:
            while (gathered := self._gather()) is not None:
                batch, arrivals = gathered
                if batch is not None:
                    self._advance(batch, arrivals)
                if self.capacity.due == 0 and self.capacity.calibrate():
                    self._report_capacity()
        except Exception:
            logger.exception("engine failed")
        finally:
            if not self._stopping:
                self._has_ended = True  # before streams are told, which then keep what is saved
                self._call(self._fail, [stream for stream in self._streams if stream])

    def _gather(self) -> tuple[Batch | None, NDArray[np.float64]] | None:
        """Return one step of every stream that has one, and (R,) when they were complete; sleep
        until there is any, or until it is time to measure.
        """
        with self._condition:
            while not self._stopping:
                self._report_waiting()
                rows = self._together(self._pool.ready())
                if not len(rows):
                    self._asleep = True
                    if self.capacity.due == 0:
                        return None, NOTHING
                    self._sleep(self.capacity.due)
                    continue
                since = self._arrivals.of(rows, self._pool.taken(rows))
                if (wait := since.min() + self.capacity.window - perf_counter()) > 0:
                    self._sleep(wait)
                    continue
                return self._pool.take(rows), since
        return None

    def _together(self, rows: Rows) -> Rows:
        """Return those of (R,) rows that are stepped now: one that is apart or others, by turns."""
        apart = self._pool.taken(rows) < self._apart[rows]
        self._is_apart = bool(apart.any() and (apart.all() or not self._is_apart))
        return rows[apart][:1] if self._is_apart else rows[~apart]

    def _sleep(self, seconds: float | None) -> None:
        """Wait for audio; each step begins anew the time that it may take."""
        self._busy_since = None
        self._condition.wait(seconds)
        self._busy_since = perf_counter()

    def _report_waiting(self) -> None:
        """Tell streams whose steps are all done; send snapshots of those to suspend or to save."""
        for row, on_saved in self._saving.items():
            if stream := self._streams[row]:
                snapshot = self._pool.snapshot(row)
                self._call(self._saved, stream, on_saved, snapshot, stream.intake)
        self._saving.clear()
        if done := [row for row in self._watched if self._pool.drained(row)]:
            self._watched.difference_update(done)
            for row, awaits in zip(done, self._pool.await_commit(np.array(done)), strict=True):
                if stream := self._streams[row]:
                    self._call(stream.all_done, awaits)
        for row in [row for row in self._leaving if self._pool.drained(row)]:
            self._leaving.remove(row)
            self._call(self._suspended, self._streams[row], self._pool.snapshot(row))

    def _advance(self, batch: Batch, arrivals: NDArray[np.float64]) -> None:
        """Step streams as one batch and pass their updates to the event loop."""
        self._busy_since = started = perf_counter()
        try:
            output = self._pool.step(batch)
        except Exception:  # one batch's failure must not stop the other streams
            logger.exception("step failed", extra={"streams": len(batch.steps.rows)})
            with self._condition:
                failed = self._owners(self._pool.drop(batch))
                for stream in failed:  # or they fail others until the event loop closes them
                    self._forget(stream.row)
                    self._failed.add(stream.row)
                    if not self._is_apart:  # any of them may be the cause
                        stream.suspected = int(self._pool.taken(np.array([stream.row]))[0])
            self._call(self._fail, failed)
            return
        ended = perf_counter()
        with self._condition:
            results = self._pool.settle(batch, output)
            owners = self._owners(results.rows)
            woken = batch.steps.rows[self._waits[batch.steps.rows]]
            self._waits[woken] = False
            senders = self._owners(woken)
        if owners or senders:
            self._call(self._report, results, owners, senders)
        self._observe(len(arrivals), arrivals[~batch.steps.flushing], started, ended)

    def _owners(self, rows: Rows) -> list[EngineStream]:
        """Return the streams of (R,) rows."""
        return [stream for row in rows.tolist() if (stream := self._streams[row])]

    def _observe(
        self, streams: int, arrivals: NDArray[np.float64], started: float, ended: float
    ) -> None:
        """Count a batch that took from `started` to `ended`; its audio came at `arrivals`."""
        if self.capacity.observe(streams, started, ended):
            self._report_capacity()
        self._metrics.step.observe(ended - started)
        self._metrics.batch.observe(streams)
        self._metrics.delay.observe_many(ended - arrivals)

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        """Run one of the next three methods on the event loop, in order."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(function, *arguments)

    def _report(
        self, results: Results, owners: list[EngineStream], senders: list[EngineStream]
    ) -> None:
        """Give each stream its update, unless it has lost its row."""
        for stream in senders:
            stream.space.set()
        characters = 0
        for stream, (_, update) in zip(owners, self._pool.updates(results), strict=True):
            characters += len(update.characters)
            if self._holds(stream):
                stream.on_update(update)
        self._metrics.characters.inc(characters)

    def _suspended(self, stream: EngineStream, snapshot: Snapshot) -> None:
        """Send a suspended stream's snapshot as its last update."""
        if self._holds(stream):
            stream.on_update(Update([], snapshot.position, True, snapshot=snapshot))

    def _saved(
        self, stream: EngineStream, on_saved: OnSaved, snapshot: Snapshot, intake: Intake
    ) -> None:
        """Give who asked for it a stream's snapshot."""
        if self._holds(stream):
            on_saved(snapshot, intake)

    def _fail(self, streams: list[EngineStream]) -> None:
        """Send streams the update that the model failed."""
        for stream in streams:
            if self._holds(stream):
                stream.on_update(FAILED)
