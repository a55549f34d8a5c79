"""The conversation of one connection, from its first message to its close."""

import asyncio
import logging
import secrets
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from starlette.websockets import WebSocket, WebSocketDisconnect

from cortado.server.keeping import Lost
from cortado.server.metrics import Metrics
from cortado.server.outbox import Outbox
from cortado.server.patience import Patience
from cortado.server.protocol.conversation import Audio, Conversation
from cortado.server.protocol.messages import (
    CLOSE_CODES,
    Chars,
    End,
    Endpoint,
    Error,
    ErrorCode,
    Final,
    ProtocolError,
    Ready,
    Resume,
    ServerMessage,
    Start,
    Suspend,
    Suspended,
)
from cortado.server.recording import Recording
from cortado.server.settings import Settings
from cortado.server.transcript import Transcript

if TYPE_CHECKING:
    from cortado.model.streaming.snapshot import Snapshot
    from cortado.model.streaming.update import Update
    from cortado.server.live_stream import EngineStream
    from cortado.server.service import Service

logger = logging.getLogger(__name__)

FINAL, SUSPENDED, DISCONNECTED = "final", "suspended", "disconnected"
# endings after which a client may come back: its connection is gone, or seems to be
LOST = {DISCONNECTED, ErrorCode.IDLE_TIMEOUT, ErrorCode.SLOW_CLIENT, ErrorCode.TAKEN_OVER}
TOKEN_BYTES = 18  # of chance in a token


class Disconnected(Exception):
    """The client is gone."""


class Session:
    """One client: a task reads, a task writes, and the first trouble ends both."""

    def __init__(self, socket: WebSocket, service: "Service") -> None:
        self.id = secrets.token_hex(8)
        self._socket = socket
        self._service = service
        self._settings: Settings = service.settings
        self._metrics: Metrics = service.metrics
        self._conversation = Conversation(self._settings.max_message_bytes)
        self._outbox = Outbox(self._settings.outbox_characters)
        self._filled = asyncio.Event()  # something waits in the outbox
        self._trouble: asyncio.Future[ProtocolError] = asyncio.get_running_loop().create_future()
        self._stream: EngineStream | None = None
        self._transcript = Transcript(self._settings.transcript_characters)
        self._recording: Recording | None = None
        self._token: str | None = None  # of a stream whose client may come back
        self._leaving: asyncio.Future[Snapshot] | None = None  # while it is taken from the engine
        self.gone = asyncio.Event()  # once the stream is kept, or given back
        self._patience = Patience(self._settings, self.fail)

    def fail(self, code: ErrorCode, message: str) -> None:
        """End the conversation with an error."""
        if not self._trouble.done():
            self._trouble.set_result(ProtocolError(code, message))

    async def run(self) -> None:
        """Talk until one side ends it."""
        await self._socket.accept()
        error: ProtocolError | None = None
        ending = DISCONNECTED
        try:
            ending = await self._talk()
        except Disconnected:
            pass
        except ProtocolError as caught:
            error, ending = caught, caught.code.value
        except Exception:  # a fault of ours ends this conversation and no other
            logger.exception("session failed", extra={"session": self.id})
            error = ProtocolError(ErrorCode.INTERNAL_ERROR, "the server failed")
            ending = error.code.value
        finally:
            await self._keep(ending)
            self._release(ending)
        if ending != DISCONNECTED:
            await self._take_leave(error)

    async def _talk(self) -> str:
        """Read and write until `final` or `suspended` is sent; return which.

        Raises:
            Disconnected: the client is gone.
            ProtocolError: the conversation cannot go on.
        """
        reading = asyncio.create_task(self._read())
        writing = asyncio.create_task(self._write())
        self._patience.start()
        try:
            limit = self._settings.max_stream_seconds or None
            waited: set[asyncio.Future[Any]] = {reading, writing, self._trouble}
            done, _ = await asyncio.wait(waited, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._patience.stop()
            reading.cancel()
            writing.cancel()
            await asyncio.gather(reading, writing, return_exceptions=True)
        if self._trouble in done:
            raise self._trouble.result()
        if writing in done:
            return writing.result()
        if reading in done:
            reading.result()
        raise _too_long(self._settings.max_stream_seconds)

    async def _read(self) -> None:
        """Take the client's messages until it is gone."""
        while True:
            match self._conversation.receive(data := await self._receive()):
                case Start() as start:
                    self._begin(start)
                case Resume() as resume:
                    await self._resume(resume)
                case Audio(samples):
                    if self._recording and isinstance(data, bytes):
                        self._recording.audio(data)
                    await self._hear(samples, len(data))
                case End():
                    self._patience.expect_nothing()
                    assert self._stream is not None
                    self._stream.end()
                case Suspend():
                    self._patience.expect_nothing()
                    assert self._stream is not None
                    self._stream.suspend()

    async def _receive(self) -> str | bytes:
        """Return the next frame.

        Raises:
            Disconnected: there is none to come.
        """
        self._patience.listening = True
        message = await self._socket.receive()
        self._patience.listening = False
        if message["type"] == "websocket.disconnect":
            raise Disconnected
        frame: str | bytes = message["text"] if "text" in message else message["bytes"]
        return frame

    def _begin(self, start: Start) -> None:
        """Take a slot of the engine and answer `ready`."""
        self._stream = self._service.open_stream(
            start.sample_rate, self._on_update, endpoints=start.endpoints
        )
        if self._service.recorder:
            self._recording = self._service.recorder.begin(self.id, start)
        self._greet(start, 0, start.keep)

    async def _resume(self, resume: Resume) -> None:
        """Take a slot for a stream that was suspended or lost, answer `ready`, and catch up."""
        lost = await self._service.found(resume)
        try:
            self._stream = self._service.open_stream(
                lost.start.sample_rate, self._on_update, snapshot=lost.snapshot
            )
        except ProtocolError:
            if resume.token is not None:  # another attempt may meet less trouble
                self._service.keeping.put(resume.token, lost)
            raise
        self._stream.resampler, self._stream.taken = lost.resampler, lost.samples
        self._transcript = lost.transcript
        self._conversation.go_on(lost.start, lost.samples)
        self._greet(lost.start, lost.samples, resume.keep, resume.token)
        told = resume.characters, resume.utterances
        if resume.token is not None:
            for message in self._transcript.since(*told, lost.snapshot.position):
                self._outbox.add(message, forced=True)
        self._filled.set()

    def _greet(self, start: Start, received: int, keep: bool, token: str | None = None) -> None:
        """Answer `ready`, with a token if the stream is to be kept when its connection is lost."""
        self._patience.expect_audio()
        if self._service.keeping.wanted and (keep or token):
            self._token = token or secrets.token_urlsafe(TOKEN_BYTES)
            self._service.live[self._token] = self
        logger.info(
            "stream started" if not received else "stream resumed",
            extra={"session": self.id, "rate": start.sample_rate, "encoding": start.encoding},
        )
        self._say(
            Ready(
                session=self.id,
                model=self._service.model_name,
                sample_rate=start.sample_rate,
                encoding=start.encoding,
                step_ms=self._service.step_ms,
                lookahead_ms=self._service.lookahead_ms,
                received=received,
                token=self._token,
            )
        )

    async def _hear(self, samples: NDArray[np.float32], size: int) -> None:
        assert self._stream is not None
        assert self._conversation.start is not None
        self._metrics.audio.inc(len(samples) / self._conversation.start.sample_rate)
        if 0 < self._settings.max_stream_seconds < self._conversation.duration:
            raise _too_long(self._settings.max_stream_seconds)
        await self._stream.push(samples)
        if size:
            self._patience.expect_audio()

    def _on_update(self, update: "Update") -> None:
        """Take what a step of the model gave."""
        if update.failed:
            self.fail(ErrorCode.INTERNAL_ERROR, "the model failed")
            return
        if update.snapshot:
            self._let_go(update.snapshot)
            return
        position = round(update.position, 3)
        if update.characters:
            text = "".join(character.text for character in update.characters)
            times = [character.time for character in update.characters]
            self._transcript.add(text, times)
            if self._recording:
                self._recording.digest.characters(text, times)
            self._say(Chars(text=text, times=times, position=position))
        if update.endpoint:
            endpoint = Endpoint(**vars(update.endpoint), position=position)
            self._transcript.part(endpoint)
            self._say(endpoint)
            if self._recording:
                self._recording.digest.endpoint(update.endpoint.start, update.endpoint.end)
        if update.finished:
            self._say(self._transcript.final(round(self._conversation.duration, 3)))
            if self._recording:
                self._recording.finish()

    def _let_go(self, snapshot: "Snapshot") -> None:
        """Take the stream that comes back from the engine: it is kept here, or by the client."""
        if self._leaving is not None:
            if not self._leaving.done():
                self._leaving.set_result(snapshot)
            return
        state = self._service.sealed(snapshot)
        facts = snapshot.received, snapshot.characters
        self._say(Suspended(state=state, received=facts[0], characters=facts[1]))

    def _say(self, message: ServerMessage) -> None:
        try:
            self._outbox.add(message)
        except ProtocolError as error:
            self.fail(error.code, error.message)
        self._filled.set()

    async def _write(self) -> str:
        """Send what waits in the outbox until `final` or `suspended` is sent; return which."""
        while True:
            await self._filled.wait()
            self._filled.clear()
            while (message := self._outbox.take()) is not None:
                await self._send(message)
                if isinstance(message, Final | Suspended):
                    return FINAL if isinstance(message, Final) else SUSPENDED

    async def _send(self, message: ServerMessage) -> None:
        self._patience.sending = monotonic()
        try:
            await self._socket.send_text(message.model_dump_json(exclude_none=True))
        except (WebSocketDisconnect, RuntimeError):  # starlette's, after a close of either side
            raise Disconnected from None
        self._patience.sending = None

    async def _take_leave(self, error: ProtocolError | None) -> None:
        """Send what is decided and the error, if there is one, and close."""
        try:
            async with asyncio.timeout(self._settings.send_timeout_seconds):
                if error is None:
                    await self._socket.close(1000)
                    return
                while (message := self._outbox.take()) is not None:
                    await self._send(message)
                await self._send(Error(code=error.code, message=error.message))
                await self._socket.close(CLOSE_CODES[error.code], error.code.value)
        except (TimeoutError, Disconnected, WebSocketDisconnect, RuntimeError):
            logger.debug("client left before the close", extra={"session": self.id})

    async def _keep(self, ending: str) -> None:
        """Keep the stream for its client to come back, if that asked for it and was lost."""
        if self._token is None:
            return
        stream, start = self._stream, self._conversation.start
        if ending in LOST and stream and start and not self._conversation.ended:
            self._leaving = asyncio.get_running_loop().create_future()
            stream.suspend()  # what came before the loss is heard first
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.send_timeout_seconds):
                    snapshot = await self._leaving
                    lost = Lost(start, snapshot, stream.resampler, stream.taken, self._transcript)
                    self._service.keeping.put(self._token, lost)
        del self._service.live[self._token]
        self.gone.set()

    def _release(self, ending: str) -> None:
        """Give the slot back and count how the stream ended."""
        if self._recording:
            self._recording.drop()  # unless it is whole
        if ending in CLOSE_CODES:
            self._metrics.errors.labels(ending).inc()
        if self._stream is None:
            return
        self._stream.close()
        duration = self._conversation.duration
        self._metrics.endings.labels(ending).inc()
        self._metrics.duration.observe(duration)
        logger.info(
            "stream ended",
            extra={
                "session": self.id,
                "ending": ending,
                "seconds": round(duration, 3),
                "characters": self._transcript.characters,
            },
        )


def _too_long(seconds: float) -> ProtocolError:
    return ProtocolError(
        ErrorCode.STREAM_TOO_LONG, f"expected a stream of at most {seconds:g} s, got a longer one"
    )
