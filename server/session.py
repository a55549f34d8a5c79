"""One client's session: the protocol of its connection, and a stream of the engine."""

import asyncio
import logging
import secrets
from contextlib import suppress
from time import monotonic

from starlette.websockets import WebSocket

from cortado.model.streaming.snapshot import Snapshot
from cortado.model.streaming.update import Update
from cortado.server.connection import Connection
from cortado.server.live_stream import EngineStream
from cortado.server.protocol.events import Audio, Event
from cortado.server.protocol.messages import End, ErrorCode, ProtocolError, Resume, Start
from cortado.server.protocol.server import ServerProtocol
from cortado.server.recorder import RecordingFile
from cortado.server.resumable import DetachedStream
from cortado.server.streams import Streams

logger = logging.getLogger(__name__)


class Session:
    """Does for the protocol what it takes an engine for; what anything means the protocol says."""

    def __init__(self, socket: WebSocket, streams: Streams) -> None:
        self.id = secrets.token_hex(8)
        self._streams, self._metrics = streams, streams.metrics
        self._protocol = ServerProtocol(streams.settings, streams.facts(self.id), monotonic())
        self._connection = Connection(socket, self._protocol, self._handle)
        self._stream: EngineStream | None = None
        self._file: RecordingFile | None = None
        self._snapshot: asyncio.Future[Snapshot] | None = None  # while the stream is detached
        self._detached = asyncio.Event()  # or its slot given back

    def fail(self, error: ProtocolError) -> None:
        """End the conversation with an error."""
        self._protocol.fail(error.code, error.message)
        self._connection.advance()

    async def run(self) -> None:
        """Talk until the connection is closed."""
        try:
            async with self._connection as connection:
                await connection.over()
                await self._detach()
                self._release()
                await connection.closed()
        finally:  # whatever went wrong
            self._give_back()

    async def _handle(self, event: Event) -> None:
        """Do what the client asks for.

        Raises:
            ProtocolError: it cannot be done.
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
                self._metrics.audio.inc(len(event.samples) / start.sample_rate)
                self._record()
                await stream.push(event.samples)
            elif isinstance(event, End):
                stream.end()
            else:
                stream.suspend()

    def _start(self, start: Start) -> None:
        self._stream = self._streams.open(start, self._on_update)
        if recorder := self._streams.recorder:
            self._file = recorder.open(self.id, start)
        token = self._streams.token(start)
        self._protocol.accept(start, monotonic(), token, recorded=self._file is not None)
        self._attach("stream started")

    async def _resume(self, resume: Resume) -> None:
        found = await self._streams.find(resume)
        try:
            self._stream = self._streams.open(found.point.start, self._on_update, found)
        except ProtocolError:
            self._streams.put_back(resume, found)
            raise
        self._protocol.resume(resume, found.point, monotonic(), self._streams.token(resume))
        self._attach("stream resumed")

    def _attach(self, event: str) -> None:
        start, token = self._protocol.start, self._protocol.token
        assert start is not None
        if token:
            self._streams.resumable.attached[token] = self._take_over
        facts = {"session": self.id, "rate": start.sample_rate, "encoding": start.encoding}
        logger.info(event, extra=facts)
        self._connection.advance()

    def _on_update(self, update: Update) -> None:
        """Take what a step of the model gave."""
        protocol = self._protocol
        if update.failed:
            protocol.fail(ErrorCode.INTERNAL_ERROR, "the model failed")
        elif update.snapshot:
            self._take(update.snapshot)
        else:
            if update.characters:
                text = "".join(character.text for character in update.characters)
                times = [character.time for character in update.characters]
                protocol.send_characters(text, times, update.position)
            if ended := update.endpoint:
                protocol.send_endpoint(ended.utterance, ended.start, ended.end, update.position)
            if update.finished:
                protocol.send_final()
                self._record()
        self._connection.advance()

    def _take(self, snapshot: Snapshot) -> None:
        """Take the stream that comes back from the engine: to be held here, or by the client."""
        if self._snapshot is None:
            state = self._streams.signed(snapshot)
            self._protocol.send_suspended(state, snapshot.received, snapshot.characters)
        elif not self._snapshot.done():
            self._snapshot.set_result(snapshot)

    async def _take_over(self) -> None:
        """Lose the connection: another one resumes the stream, which is detached on return."""
        message = "expected no other connection to resume the stream"
        self.fail(ProtocolError(ErrorCode.TAKEN_OVER, message))
        await self._detached.wait()

    async def _detach(self) -> None:
        """Hold the stream for its client to come back, if the protocol says so."""
        protocol, stream, token = self._protocol, self._stream, self._protocol.token
        if stream is None or token is None:
            return
        if protocol.detach_expected():
            self._snapshot = asyncio.get_running_loop().create_future()
            stream.suspend()  # after all audio before it
            with suppress(TimeoutError):
                async with asyncio.timeout(self._streams.settings.send_timeout_seconds):
                    snapshot = await self._snapshot
                point = protocol.resume_point(stream.taken, snapshot.position)
                held = DetachedStream(point, snapshot, stream.resampler)
                self._streams.resumable.put(token, held)

    def _release(self) -> None:
        """Give the slot back, count how the conversation ended, and let it be closed."""
        protocol = self._protocol
        protocol.release(monotonic())
        self._give_back()
        self._record()
        if protocol.error:
            self._metrics.errors.labels(protocol.error.code.value).inc()
        if self._stream is not None:
            self._metrics.endings.labels(protocol.ending).inc()
            self._metrics.duration.observe(protocol.duration)
            facts = {"ending": protocol.ending, "seconds": round(protocol.duration, 3)}
            facts |= {"characters": protocol.characters}
            logger.info("stream ended", extra={"session": self.id, **facts})
        self._connection.advance()

    def _give_back(self) -> None:
        """Let others have the stream: its slot, and itself if it is detached."""
        if self._stream:
            self._stream.close()
        if self._protocol.token and not self._detached.is_set():
            del self._streams.resumable.attached[self._protocol.token]
        self._detached.set()

    def _record(self) -> None:
        if self._file and self._protocol.recording:
            self._file.update(self._protocol.recording)
