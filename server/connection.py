"""The shell around a protocol: its websocket, its clock, and who does what the client asks for."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import Any, Protocol

from starlette.websockets import WebSocketDisconnect

from cortado.server.protocol.errors import REASONS
from cortado.server.protocol.events import Event, State
from cortado.server.protocol.messages import ErrorCode, ProtocolError
from cortado.server.protocol.server import ServerProtocol

logger = logging.getLogger(__name__)

SOONEST = 0.001  # least seconds between two calls of the protocol's timer


class Socket(Protocol):
    """A connection's websocket; `starlette.websockets.WebSocket` is one."""

    async def receive(self) -> MutableMapping[str, Any]:
        """Return the next message, as ASGI has them."""

    async def send_text(self, data: str) -> None:
        """Send a message; return once there is room for the next."""

    async def close(self, code: int = 1000, reason: str | None = None) -> None:
        """Close the connection."""


class Connection:
    """Moves messages between a websocket and a protocol: a task reads, another one writes."""

    def __init__(
        self,
        socket: Socket,
        protocol: ServerProtocol,
        handle: Callable[[Event], Awaitable[None]],
    ) -> None:
        """Let `handle` do what the client asks for; it may raise `ProtocolError`."""
        self._socket, self._protocol, self._handle = socket, protocol, handle
        self._tasks: list[asyncio.Task[None]] = []  # the reading one, and the writing one
        self._timer: asyncio.TimerHandle | None = None
        self._to_send, self._over, self._closed = (asyncio.Event() for _ in range(3))

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Read and write, the handshake being accepted; stop in the end, whatever is left."""
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._write())]
        try:
            self._set_timer()
            yield
        finally:
            if self._timer:
                self._timer.cancel()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def over(self) -> None:
        """Wait until the conversation has ended; nothing is read or handled then."""
        await self._over.wait()
        self._tasks[0].cancel()
        await asyncio.wait(self._tasks[:1])

    async def closed(self) -> None:
        """Wait until all is sent and the websocket closed, or the client is gone."""
        await self._closed.wait()

    def advance(self) -> None:
        """Let those go on who wait for what the protocol has come to."""
        self._to_send.set()
        if self._protocol.ending is not None:
            self._over.set()
        if self._protocol.state is State.CLOSED:
            self._closed.set()

    def _set_timer(self) -> None:
        now = monotonic()
        self._protocol.handle_timer(now)
        self.advance()
        wait = max(self._protocol.timer(now) - now, SOONEST)
        self._timer = asyncio.get_running_loop().call_later(wait, self._set_timer)

    async def _read(self) -> None:
        """Take the client's messages until the conversation has ended."""
        try:
            while self._protocol.ending is None:
                await self._receive()
        except ProtocolError as error:
            self._protocol.fail(error.code, error.message)
        except Exception:  # a fault of ours ends this conversation and no other
            logger.exception("session failed")
            self._protocol.fail(ErrorCode.INTERNAL_ERROR, "the server failed")
        self.advance()

    async def _receive(self) -> None:
        """Take one message of the client, and have it handled."""
        protocol = self._protocol
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            protocol.receive_eof()
            return
        data = message["text"] if "text" in message else message["bytes"]
        protocol.receive_data(data, monotonic())
        for event in protocol.events_received():
            await self._handle(event)
        protocol.events_handled(monotonic())
        self.advance()  # a dialect may have answered

    async def _write(self) -> None:
        """Send what the protocol has to send, and close."""
        protocol = self._protocol
        try:
            while protocol.state is not State.CLOSED:
                if (data := protocol.data_to_send(monotonic())) is not None:
                    await _sent(self._socket.send_text(data))
                    protocol.data_sent()
                if protocol.ending is not None:  # by a last message that may have no text
                    self.advance()
                if data is not None:
                    await asyncio.sleep(0)  # other tasks' turn: the next may take a while to make
                    continue
                if close := protocol.close_expected():
                    await _sent(self._socket.close(close.code, close.reason))
                    protocol.receive_eof()
                else:
                    self._to_send.clear()
                    await self._to_send.wait()
        except WebSocketDisconnect:
            protocol.receive_eof()
        except Exception:  # a fault of ours: what cannot be written cannot be told either
            logger.exception("session failed")
            protocol.fail(ErrorCode.INTERNAL_ERROR, "the server failed")
            with suppress(WebSocketDisconnect):
                await _sent(self._socket.close(REASONS[ErrorCode.INTERNAL_ERROR].close))
            protocol.receive_eof()
        self.advance()


async def _sent(sent: Awaitable[None]) -> None:
    """Wait until something is sent.

    Raises: WebSocketDisconnect if either side has closed, of which Starlette may say RuntimeError.
    """
    try:
        await sent
    except RuntimeError as error:
        raise WebSocketDisconnect from error
