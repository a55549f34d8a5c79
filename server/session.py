"""One client's session: the protocol of its connection, and a stream of the engine."""

import asyncio
import logging
import secrets
from contextlib import suppress
from contextvars import copy_context
from time import monotonic
from typing import Any

from structlog.contextvars import bind_contextvars

from cortado.model.streaming.snapshot import Snapshot
from cortado.model.streaming.update import Update
from cortado.server.callers import caller
from cortado.server.connection import Connection, Socket
from cortado.server.detached import DetachedStream, packed
from cortado.server.engine_stream import EngineStream, Intake
from cortado.server.protocol.dialect import Dialect
from cortado.server.protocol.events import Audio, Event, State, WhenProcessed
from cortado.server.protocol.messages import (
    End,
    ErrorCode,
    Flush,
    ProtocolError,
    Resume,
    Start,
    Suspend,
)
from cortado.server.protocol.pace import Pace
from cortado.server.protocol.server import ServerProtocol
from cortado.server.recorder import RecordingFile
from cortado.server.streams import Streams
from cortado.server.timeline import Timeline

DETACH_SECONDS = 3.0  # that a shutdown, which lasts 5 s, leaves the engine to step what is left

logger = logging.getLogger(__name__)


class Session:
    """Does for the protocol what it takes an engine for; what anything means the protocol says."""

    def __init__(self, socket: Socket, streams: Streams, dialect: Dialect) -> None:
        """Talk over `socket` with a client that speaks `dialect`."""
        self.id = secrets.token_hex(8)
        self.facts: dict[str, Any] = {}  # how the stream was, once it is over
        self._streams, self._metrics = streams, streams.metrics
        self._protocol = ServerProtocol(streams.settings, monotonic(), dialect)
        self._connection = Connection(socket, self._protocol, self._handle)
        self._stream: EngineStream | None = None
        self._pace = Pace(streams.settings.max_speed)
        self._flushed = asyncio.Event()
        self._file: RecordingFile | None = None
        # while the stream is detached; of None if the model fails
        self._snapshot: asyncio.Future[Snapshot | None] | None = None
        self._detached = asyncio.Event()  # or its slot given back
        self._saving: asyncio.Task[None] | None = None  # into the store
        self._timer: asyncio.TimerHandle | None = None  # until it is saved again

    def fail(self, error: ProtocolError) -> None:
        """End the conversation with an error."""
        self._protocol.fail(error.code, error.message)
        self._connection.advance()

    async def run(self) -> None:
        """Talk until the connection is closed."""
        bind_contextvars(session=self.id)  # in each line of the log
        self._context = copy_context()  # of the engine's calls, which come from elsewhere
        try:
            async with self._connection.open():
                await self._connection.over()
                await self._stop_saving()
                await self._detach()
                self._release()
                await self._connection.closed()
        finally:  # whatever went wrong
            self._give_back()
            self._protocol.dialect.close()
            if self._protocol.state not in (State.CLOSING, State.CLOSED):  # cancelled, or a fault
                self._protocol.receive_eof()
                self._release()

    async def _handle(self, event: Event) -> None:
        """Do what the client asks for.

        Raises: ProtocolError if it cannot be done.
        """
        if isinstance(event, Start):
            self._start(event)
        elif isinstance(event, Resume):
            await self._resume(event)
        else:
            stream, start = self._stream, self._protocol.start
            assert stream is not None
            assert start is not None
            if isinstance(event, Audio):
                seconds = len(event.samples) / start.sample_rate
                self._metrics.audio.inc(seconds)
                self._record()
                await stream.push(event.samples)
                if wait := self._pace.wait(seconds, monotonic()):
                    await asyncio.sleep(wait)
            elif isinstance(event, WhenProcessed):
                self._protocol.send_processed(await stream.processed())
                self._connection.advance()
            elif isinstance(event, Flush):
                await self._flush(stream, start)
            elif isinstance(event, End):
                stream.end()
            elif isinstance(event, Suspend):
                stream.suspend()

    def _start(self, start: Start) -> None:
        self._stream = self._streams.open(start, self._on_update)
        if recorder := self._streams.recorder:
            self._file = recorder.open(self.id, start)
        token = self._streams.token(start)
        facts, recorded = self._streams.facts(self.id), self._file is not None
        self._protocol.accept(start, facts, monotonic(), token, recorded=recorded)
        self._attach("stream started")

    async def _flush(self, stream: EngineStream, start: Start) -> None:
        """Have all audio so far written to its last letter: its stream ends, the next begins."""
        stream.end()
        await self._flushed.wait()
        self._flushed.clear()
        self._timeline.restart(self._protocol.duration)
        self._stream = stream.restarted(start)
        self._stream.taken = self._protocol.received
        self._protocol.send_flushed()
        self._connection.advance()

    async def _resume(self, resume: Resume) -> None:
        self._stream, point = await self._streams.resume(resume, self._on_update)
        facts, token = self._streams.facts(self.id), self._streams.token(resume)
        self._protocol.resume(resume, point, facts, monotonic(), token)
        self._metrics.resumed.inc()
        self._attach("stream resumed")

    def _attach(self, event: str) -> None:
        start, token = self._protocol.start, self._protocol.token
        assert start is not None
        self._timeline = Timeline(spaced=self._streams.engine.recognizer.vocabulary.spaced)
        if token:
            self._streams.resumable.attached[token] = self._take_over
        facts: dict[str, Any] = {"rate": start.sample_rate, "encoding": start.encoding}
        logger.info(event, extra=facts | caller.get().facts)
        self._connection.advance()
        if token and self._streams.resumable.saves:
            self._save()

    def _save(self) -> None:
        """Save the stream into the store, and again after a while."""
        if self._stream and self._protocol.state is State.STREAMING:
            self._stream.save(self._on_saved)

    def _on_saved(self, snapshot: Snapshot, intake: Intake) -> None:
        """Store a snapshot of the stream, which goes on."""
        protocol, token = self._protocol, self._protocol.token
        if token and protocol.state is State.STREAMING and protocol.ending is None:
            point = protocol.resume_point(intake.taken, snapshot.position, is_whole=False)
            data = packed(point, snapshot, intake.resampler)
            storing = self._store(token, data, intake.taken)
            self._saving = asyncio.create_task(storing, context=self._context)

    async def _store(self, token: str, data: bytes, received: int) -> None:
        resumable = self._streams.resumable
        is_own = await resumable.save(token, data)
        if is_own is False:
            self.fail(taken_over())
            return
        if is_own:
            self._protocol.send_acknowledged(received)
            self._connection.advance()
        self._timer = asyncio.get_running_loop().call_later(resumable.saves, self._save)

    async def _stop_saving(self) -> None:
        """Save the stream no more; wait until what is being written is."""
        if self._saving:
            await self._saving
        if self._timer:  # that it has set
            self._timer.cancel()

    def _on_update(self, update: Update) -> None:
        """Take what a step of the model gave."""
        try:
            self._pass_on(update)
        except Exception:  # a fault of ours ends this conversation and no other
            logger.exception("session failed", extra={"session": self.id})
            self._protocol.fail(ErrorCode.INTERNAL_ERROR, "the server failed")
        self._connection.advance()

    def _pass_on(self, update: Update) -> None:
        """Give the protocol what a step of the model gave."""
        protocol = self._protocol
        if update.failed:
            protocol.fail(ErrorCode.INTERNAL_ERROR, "the model failed")
            if self._snapshot and not self._snapshot.done():
                self._snapshot.set_result(None)
        elif update.snapshot:
            self._take(update.snapshot)
        else:
            update = self._timeline.place(update)
            if update.characters or update.alternatives:
                text = "".join(character.text for character in update.characters)
                times = [character.time for character in update.characters]
                confidences = [character.confidence for character in update.characters]
                protocol.send_characters(
                    text, times, confidences, update.position, update.alternatives
                )
            if ended := update.endpoint:
                protocol.send_endpoint(ended.utterance, ended.start, ended.end, update.position)
            if update.finished and protocol.state is State.DRAINING:
                protocol.send_final()
                self._record()
            elif update.finished:
                self._flushed.set()

    def _take(self, snapshot: Snapshot) -> None:
        """Take the stream that comes back from the engine: to be held here, or by the client."""
        if self._snapshot is None:
            state = self._streams.signer.sign(snapshot.to_bytes())
            self._protocol.send_suspended(state, snapshot.received, snapshot.characters)
        elif not self._snapshot.done():
            self._snapshot.set_result(snapshot)

    async def _take_over(self) -> None:
        """Lose the connection: another one resumes the stream, which is detached on return."""
        self.fail(taken_over())
        await self._detached.wait()

    async def _detach(self) -> None:
        """Hold the stream for its client to come back, if the protocol says so."""
        protocol, stream, token = self._protocol, self._stream, self._protocol.token
        if stream is None or token is None or stream.failure is not None:
            return  # what is saved of a stream whose engine has failed may yet be resumed
        if not protocol.detach_expected():
            if protocol.ending != ErrorCode.SHUTTING_DOWN:  # the same where the server stops
                await self._drop(stream, token)
        else:
            self._snapshot = asyncio.get_running_loop().create_future()
            stream.suspend()  # after all audio before it
            streams = self._streams
            seconds = DETACH_SECONDS if streams.draining.is_set() else streams.settings.keep_seconds
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    snapshot = await self._snapshot
                if snapshot is None:
                    await self._drop(stream, token)
                    return
                point = protocol.resume_point(stream.taken, snapshot.position)
                held = DetachedStream(point, snapshot, stream.resampler)
                await streams.resumable.put(token, held)

    async def _drop(self, stream: EngineStream, token: str) -> None:
        """Hold the stream no longer, unless the fault of another may have ended it."""
        if stream.suspected:
            self._streams.resumable.suspect(token, stream.suspected)
        elif stream.failure is None:
            await self._streams.resumable.drop(token)

    def _release(self) -> None:
        """Give the slot back, count how the conversation ended, and let it be closed."""
        protocol = self._protocol
        protocol.release(monotonic())
        self._give_back()
        self._record()
        if error := protocol.error:
            self._metrics.errors.labels(error.code.value).inc()
            if error.code is ErrorCode.INTERNAL_ERROR:  # never without a line of its own
                logger.error("stream failed", extra={"reason": error.message})
        if self._stream is not None:
            self._metrics.endings.labels(protocol.ending).inc()
            self._metrics.duration.observe(protocol.duration)
            self.facts |= {
                "ending": protocol.ending,
                "seconds": round(protocol.duration, 3),
                "characters": protocol.characters,
            }
            logger.info("stream ended", extra=self.facts)
        self._connection.advance()

    def _give_back(self) -> None:
        """Let others have the stream: its slot, and itself if it is detached."""
        if self._timer:
            self._timer.cancel()
        if self._stream:
            self._stream.close()
        if self._protocol.token and not self._detached.is_set():
            self._streams.resumable.release(self._protocol.token)
        self._detached.set()

    def _record(self) -> None:
        if self._file and self._protocol.recording:
            self._file.update(self._protocol.recording)


def taken_over() -> ProtocolError:
    """Return the error of a connection whose stream another one has resumed."""
    message = "expected no other connection to resume the stream"
    return ProtocolError(ErrorCode.TAKEN_OVER, message)
