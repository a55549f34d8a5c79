"""The conversation of one connection, from its first message to its close."""

import asyncio
import logging
import secrets
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from starlette.websockets import WebSocket, WebSocketDisconnect

from server.metrics import Metrics
from server.outbox import Outbox
from server.protocol import (
    CLOSE_CODES,
    Audio,
    Chars,
    Conversation,
    End,
    Endpoint,
    Error,
    ErrorCode,
    Final,
    ProtocolError,
    Ready,
    ServerMessage,
    Start,
)
from server.recording import Recording
from server.settings import Settings
from server.transcript import Transcript

if TYPE_CHECKING:  # the engine brings torch, which a conversation never touches
    from server.engine import EngineStream, Update
    from server.service import Service

logger = logging.getLogger(__name__)

FINAL, DISCONNECTED = "final", "disconnected"


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
        self._deadline: float | None = monotonic() + self._settings.start_timeout_seconds

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
            await self._talk()
            ending = FINAL
        except Disconnected:
            pass
        except ProtocolError as caught:
            error, ending = caught, caught.code.value
        except Exception:  # a fault of ours ends this conversation and no other
            logger.exception("session failed", extra={"session": self.id})
            error = ProtocolError(ErrorCode.INTERNAL_ERROR, "the server failed")
            ending = error.code.value
        finally:
            self._release(ending)
        if ending != DISCONNECTED:
            await self._take_leave(error)

    async def _talk(self) -> None:
        """Read and write until `final` is sent.

        Raises:
            Disconnected: the client is gone.
            ProtocolError: the conversation cannot go on.
        """
        reading = asyncio.create_task(self._read())
        writing = asyncio.create_task(self._write())
        try:
            limit = self._settings.max_stream_seconds or None
            waited: set[asyncio.Future[Any]] = {reading, writing, self._trouble}
            done, _ = await asyncio.wait(waited, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        finally:
            reading.cancel()
            writing.cancel()
            await asyncio.gather(reading, writing, return_exceptions=True)
        if self._trouble in done:
            raise self._trouble.result()
        if writing in done:
            return writing.result()
        if reading in done:
            return reading.result()
        raise _too_long(self._settings.max_stream_seconds)

    async def _read(self) -> None:
        """Take the client's messages until it is gone."""
        while True:
            match self._conversation.receive(data := await self._receive()):
                case Start() as start:
                    self._begin(start)
                case Audio(samples):
                    if self._recording and isinstance(data, bytes):
                        self._recording.audio(data)
                    await self._hear(samples, len(data))
                case End():
                    self._deadline = None
                    assert self._stream is not None
                    self._stream.end()

    async def _receive(self) -> str | bytes:
        """Return the next frame.

        Raises:
            Disconnected: there is none to come.
            ProtocolError: it does not come in time.
        """
        wait = None if self._deadline is None else self._deadline - monotonic()
        try:
            async with asyncio.timeout(wait):
                message = await self._socket.receive()
        except TimeoutError:
            raise self._late() from None
        if message["type"] == "websocket.disconnect":
            raise Disconnected
        frame: str | bytes = message["text"] if "text" in message else message["bytes"]
        return frame

    def _late(self) -> ProtocolError:
        if self._conversation.start is None:
            seconds = self._settings.start_timeout_seconds
            return ProtocolError(
                ErrorCode.START_TIMEOUT, f"expected start within {seconds:g} s, got nothing"
            )
        seconds = self._settings.idle_timeout_seconds
        return ProtocolError(
            ErrorCode.IDLE_TIMEOUT, f"expected audio or end within {seconds:g} s, got neither"
        )

    def _begin(self, start: Start) -> None:
        """Take a slot of the engine and answer `ready`."""
        self._stream = self._service.open_stream(
            start.sample_rate, self._on_update, endpoints=start.endpoints
        )
        self._deadline = monotonic() + self._settings.idle_timeout_seconds
        if self._service.recorder:
            self._recording = self._service.recorder.begin(self.id, start)
        logger.info(
            "stream started",
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
            self._deadline = monotonic() + self._settings.idle_timeout_seconds

    def _on_update(self, update: "Update") -> None:
        """Take what a step of the model gave."""
        if update.failed:
            self.fail(ErrorCode.INTERNAL_ERROR, "the model failed")
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
            self._say(Endpoint(**vars(update.endpoint), position=position))
            if self._recording:
                self._recording.digest.endpoint(update.endpoint.start, update.endpoint.end)
        if update.finished:
            self._say(self._transcript.final(round(self._conversation.duration, 3)))
            if self._recording:
                self._recording.finish()

    def _say(self, message: ServerMessage) -> None:
        try:
            self._outbox.add(message)
        except ProtocolError as error:
            self.fail(error.code, error.message)
        self._filled.set()

    async def _write(self) -> None:
        """Send what waits in the outbox until `final` is sent."""
        while True:
            await self._filled.wait()
            self._filled.clear()
            while (message := self._outbox.take()) is not None:
                await self._send(message)
                if isinstance(message, Final):
                    return

    async def _send(self, message: ServerMessage) -> None:
        seconds = self._settings.send_timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                await self._socket.send_text(message.model_dump_json())
        except TimeoutError:
            raise ProtocolError(
                ErrorCode.SLOW_CLIENT,
                f"expected the client to read a message within {seconds:g} s, got no room for it",
            ) from None
        except (WebSocketDisconnect, RuntimeError):  # starlette's, after a close of either side
            raise Disconnected from None

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
        except (TimeoutError, Disconnected, ProtocolError, WebSocketDisconnect, RuntimeError):
            logger.debug("client left before the close", extra={"session": self.id})

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
