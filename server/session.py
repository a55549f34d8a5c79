"""The shell of one connection: between its socket, the protocol and a stream of the engine."""

import asyncio
import logging
import secrets
from contextlib import suppress
from time import monotonic

from starlette.websockets import WebSocket, WebSocketDisconnect

from cortado.model.streaming.snapshot import Snapshot
from cortado.model.streaming.update import Update
from cortado.server.live_stream import EngineStream
from cortado.server.protocol.events import Audio, State
from cortado.server.protocol.messages import End, ErrorCode, ProtocolError, Resume, Start, Suspend
from cortado.server.protocol.server import ServerProtocol
from cortado.server.recorder import RecordingFile
from cortado.server.resumable import DetachedStream
from cortado.server.streams import Streams

logger = logging.getLogger(__name__)

SOONEST = 0.001  # seconds until the protocol is told the time again


class Session:
    """One connection: a task reads, a task writes, and the protocol says what it all means."""

    def __init__(self, socket: WebSocket, streams: Streams) -> None:
        self.id = secrets.token_hex(8)
        self._socket = socket
        self._streams, self._metrics = streams, streams.metrics
        self._protocol = ServerProtocol(streams.settings, streams.facts(self.id), monotonic())
        self._stream: EngineStream | None = None
        self._file: RecordingFile | None = None
        self._snapshot: asyncio.Future[Snapshot] | None = None  # while the stream is being detached
        self._timer: asyncio.TimerHandle | None = None
        self._to_send = asyncio.Event()
        self._over = asyncio.Event()  # the conversation
        self._detached = asyncio.Event()  # the stream is detached, or its slot given back
        self._closed = asyncio.Event()

    def fail(self, error: ProtocolError) -> None:
        """End the conversation with an error."""
        self._protocol.fail(error.code, error.message)
        self._advance()

    async def run(self) -> None:
        """Move messages until the connection is closed."""
        await self._socket.accept()
        reading, writing = asyncio.create_task(self._read()), asyncio.create_task(self._write())
        self._set_timer()
        try:
            await self._over.wait()
            reading.cancel()
            await asyncio.wait({reading})
            await self._detach()
            self._release()
            await self._closed.wait()
        finally:
            if self._timer:
                self._timer.cancel()
            if self._stream:
                self._stream.close()  # if not done by now
            reading.cancel()
            writing.cancel()
            await asyncio.gather(reading, writing, return_exceptions=True)

    def _advance(self) -> None:
        """Let those go on who wait for what the protocol has come to."""
        self._to_send.set()
        if self._protocol.ending is not None:
            self._over.set()
        if self._protocol.state is State.CLOSED:
            self._closed.set()

    def _set_timer(self) -> None:
        now = monotonic()
        self._protocol.handle_timer(now)
        self._advance()
        wait = max(self._protocol.timer(now) - now, SOONEST)
        self._timer = asyncio.get_running_loop().call_later(wait, self._set_timer)

    async def _read(self) -> None:
        """Take the client's messages until the conversation is over."""
        protocol = self._protocol
        try:
            while protocol.ending is None:
                if pause := protocol.pause(monotonic()):
                    await asyncio.sleep(pause)
                message = await self._socket.receive()
                if message["type"] == "websocket.disconnect":
                    protocol.receive_eof()
                    break
                data = message["text"] if "text" in message else message["bytes"]
                protocol.receive_data(data, monotonic())
                for event in protocol.events_received():
                    await self._handle(event)
                protocol.events_handled(monotonic())
        except ProtocolError as error:
            protocol.fail(error.code, error.message)
        except Exception:  # a fault of ours ends this conversation and no other
            logger.exception("session failed", extra={"session": self.id})
            protocol.fail(ErrorCode.INTERNAL_ERROR, "the server failed")
        self._advance()

    async def _handle(self, event: Start | Resume | Audio | Suspend | End) -> None:
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
        self._advance()

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
        self._advance()

    def _take(self, snapshot: Snapshot) -> None:
        """Take the stream that comes back from the engine: to be held here, or by the client."""
        if self._snapshot is None:
            state = self._streams.signed(snapshot)
            self._protocol.send_suspended(state, snapshot.received, snapshot.characters)
        elif not self._snapshot.done():
            self._snapshot.set_result(snapshot)

    async def _write(self) -> None:
        """Send what the protocol has to send, and close."""
        protocol = self._protocol
        try:
            while protocol.state is not State.CLOSED:
                if (data := protocol.data_to_send(monotonic())) is not None:
                    await self._socket.send_text(data)
                    protocol.data_sent()
                    if protocol.ending is not None:
                        self._advance()
                elif close := protocol.close_expected():
                    await self._socket.close(close.code, close.reason)
                    protocol.receive_eof()
                else:
                    self._to_send.clear()
                    await self._to_send.wait()
        except (WebSocketDisconnect, RuntimeError):  # starlette's, after a close of either side
            protocol.receive_eof()
        self._advance()

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
            stream.suspend()  # what came before is heard first
            with suppress(TimeoutError):
                async with asyncio.timeout(self._streams.settings.send_timeout_seconds):
                    snapshot = await self._snapshot
                point = protocol.resume_point(stream.taken, snapshot.position)
                held = DetachedStream(point, snapshot, stream.resampler)
                self._streams.resumable.put(token, held)
        del self._streams.resumable.attached[token]
        self._detached.set()

    def _release(self) -> None:
        """Give the slot back, count how the conversation ended, and let it be closed."""
        protocol = self._protocol
        protocol.release(monotonic())
        self._record()
        if protocol.error:
            self._metrics.errors.labels(protocol.error.code.value).inc()
        if self._stream is not None:
            self._stream.close()
            self._metrics.endings.labels(protocol.ending).inc()
            self._metrics.duration.observe(protocol.duration)
            facts = {"ending": protocol.ending, "seconds": round(protocol.duration, 3)}
            facts |= {"characters": protocol.characters}
            logger.info("stream ended", extra={"session": self.id, **facts})
        self._advance()

    def _record(self) -> None:
        if self._file and self._protocol.recording:
            self._file.update(self._protocol.recording)
