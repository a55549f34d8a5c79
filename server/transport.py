"""The connections of a server: uvicorn's two protocols, with bounds for clients that mean harm.

uvicorn parses all that one read brings, up to 256 KiB, before anybody else has a turn, and waits
for slow clients without end. Here a connection is parsed piece by piece, at a bounded rate, and no
further than its messages are handled and its answers are read; and every wait has a deadline.
docs/threats.md lists the bounds and their tests.
"""

import asyncio
import json
from collections.abc import Callable
from http import HTTPStatus
from time import monotonic, thread_time
from typing import TYPE_CHECKING, Any

import h11
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame

from cortado.server.callers import unmapped
from cortado.server.connection_limits import Connections
from cortado.server.web import HEADERS

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveEvent, ASGISendEvent

WRITE_BUFFER = 16_384  # bytes to a client that waits to be read; some seconds of messages
PIECE = 512  # bytes that are parsed at once: at most 85 frames
TURN_FRAMES = 32  # after so many frames of one connection it is others' turn
FEW_FRAMES = 100  # a second, as a live stream has at most; connections with more take turns
BURST_SECONDS = 1.0  # whose frames may come at once
MAX_FRAGMENTS = 1024  # of one message; each costs some 100 bytes beside what it holds
MAX_HEADER_BYTES = 16_384  # of a request line and its headers
MAX_PIPELINED_BYTES = 65_536  # of requests that wait for the answer to the one before
HTTP_PIECE = 2048  # bytes of HTTP that are parsed at once: at most 341 chunks of a body
HTTP_TURN = 0.002  # seconds of the processor, after which it is another connection's turn
MAX_LINGERING = 64  # refused connections that have time to read why
QUIET_SECONDS = 0.3  # without data, after which a client has sent what it had on its way
LEAST_BYTES = 1024  # of a body, in `start_timeout_seconds`


def peer(client: tuple[str, int] | None) -> tuple[str, int] | None:
    """Return the address and port of a connection's other end, the address in its plain form."""
    return client and (unmapped(client[0]), client[1])


def answer(status: HTTPStatus, reason: str, retry_after: int | None = None) -> bytes:
    """Return an HTTP answer that refuses a connection; `retry_after` is in seconds."""
    body = json.dumps({"error": reason}).encode()
    fields = HEADERS | {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Connection": "close",
    }
    if retry_after is not None:
        fields["Retry-After"] = str(retry_after)
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} {status.phrase}\r\n{head}\r\n".encode() + body


class Flow(FlowControl):
    """How uvicorn holds a client back whose body is not taken; parsing goes on with reading."""

    def __init__(self, transport: asyncio.Transport, go_on: Callable[[], None]) -> None:
        super().__init__(transport)
        self._go_on = go_on

    def resume_reading(self) -> None:
        """Read on, and soon parse what has come."""
        if self.read_paused:
            super().resume_reading()
            asyncio.get_running_loop().call_soon(self._go_on)


class HttpConnection(H11Protocol):
    """A connection before it is a websocket, and that of all other requests."""

    limits: Connections  # set by `bounded`

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, unless it is one connection too many."""
        super().connection_made(transport)
        self.client = peer(self.client)
        transport.set_write_buffer_limits(high=WRITE_BUFFER)
        self.flow = Flow(transport, self._ask)
        self._unread = bytearray()  # little more than what one read brings
        self._waits = False  # for its turn to parse
        self._refused = False
        self._address = self.client[0] if self.client else ""
        self._cycle, self._unsent, self._bytes = self.cycle, 0, 0  # at the last `_look`, and since
        self._look_again()
        if reason := self.limits.opened(self._address):
            transport.write(answer(HTTPStatus.SERVICE_UNAVAILABLE, reason, retry_after=5))
            # What has come unread by a close would make the system reset the connection, and the
            # answer with it.
            self._refused = True
            self.limits.lingering += 1
            seconds = QUIET_SECONDS if self.limits.lingering <= MAX_LINGERING else 0
            self.loop.call_later(seconds, transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Count it out."""
        self._timer.cancel()
        self._unread.clear()
        if self._refused:
            self.limits.lingering -= 1
        else:
            self.limits.closed(self._address)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what has come, now or when it is due."""
        if self._refused or self.transport.is_closing():
            return
        self._bytes += len(data)
        self._unread += data
        self._ask()
        if self._waits:
            self.transport.pause_reading()

    def _ask(self) -> None:
        """Have what is unread parsed; the beginning of a request comes before bodies."""
        if self._unread and not self._waits:
            self._waits = True
            cycle = self.cycle
            self.limits.http.ask(self._parse, first=cycle is None or cycle.response_complete)

    def _parse(self) -> None:
        """Parse one turn's data; who sends requests without waiting for answers is cut off."""
        self._waits = False
        began = thread_time()
        while self._unread and thread_time() - began < HTTP_TURN and not self.flow.read_paused:
            piece = bytes(self._unread[:HTTP_PIECE])
            del self._unread[:HTTP_PIECE]
            super().data_received(piece)
            if self.transport.is_closing() or self._timer.cancelled():  # or handed over
                return
        if self.flow.read_paused:
            waiting = len(self.conn.trailing_data[0]) + len(self._unread)
            if self.conn.their_state is h11.DONE and waiting > MAX_PIPELINED_BYTES:
                self.transport.abort()
        elif self._unread:
            self.transport.pause_reading()
            self._ask()
        else:
            self.transport.resume_reading()

    def _look_again(self) -> None:
        self._timer = self.loop.call_later(self.limits.settings.start_timeout_seconds, self._look)

    def _look(self) -> None:
        """Cut the connection if the client has let all the time since the last look pass."""
        cycle, unsent = self.cycle, self.transport.get_write_buffer_size()
        if unsent:
            late = unsent == self._unsent
        elif cycle is None or cycle.response_complete:
            late = cycle is self._cycle  # no request since then, or not a whole one
        else:
            is_read = not self.flow.read_paused and not self._unread
            late = cycle.more_body and is_read and self._bytes < LEAST_BYTES
        self._cycle, self._unsent, self._bytes = cycle, unsent, 0
        if late:
            self.transport.abort()
        else:
            self._look_again()

    def shutdown(self) -> None:
        """Close when the server stops; if a body is coming, once its client had time to hear why.

        uvicorn would close with the answer. That resets the connection if the client still sends,
        which then loses the answer.
        """
        if self.cycle and self.cycle.more_body:
            self._shut_down_when_quiet(-1)
        else:
            super().shutdown()

    def _shut_down_when_quiet(self, received: int) -> None:
        """Close if nothing has come since so many bytes were received."""
        if self._bytes == received:
            super().shutdown()
        else:
            self.loop.call_later(QUIET_SECONDS, self._shut_down_when_quiet, self._bytes)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Hand the connection over."""
        self._timer.cancel()
        self._unread.clear()
        super().handle_websocket_upgrade(event)

    def send_400_response(self, msg: str) -> None:
        """Refuse a request that cannot be read."""
        self.transport.write(answer(HTTPStatus.BAD_REQUEST, msg))
        self.transport.close()


class WebSocketConnection(WebSocketsSansIOProtocol):
    """A websocket that is read no faster than its messages are handled and its answers are read."""

    limits: Connections  # set by `bounded`

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.close_timeout = self.limits.settings.close_timeout_seconds
        self._unread = bytearray()  # at most what one read brings
        self._failed = False  # the client broke the protocol: what it still sends is dropped
        self._dropped = 0  # bytes of that
        self._waits = False  # to parse
        self._frames = 0  # of this turn
        self._due = 0.0  # time that the frames so far have taken, at the rate allowed
        self._few = 0.0  # the same, at FEW_FRAMES

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; hold back messages from a client that has WRITE_BUFFER bytes to read."""
        super().connection_made(transport)
        self.client = peer(self.client)
        self.transport.set_write_buffer_limits(high=WRITE_BUFFER)

    def connection_lost(self, exc: Exception | None) -> None:
        """Count it out."""
        self._unread.clear()
        self.limits.closed(self.client[0] if self.client else "")
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what has come, now or when it is due."""
        if self._failed:
            self._dropped += len(data)
            return
        self._unread += data
        self._go_on()

    def _go_on(self) -> None:
        if not (self._waits or self.disconnected):
            self._ask()

    def _ask(self) -> None:
        """Parse: at once, or in turn with all who send many frames."""
        self._waits = True
        if self._few - monotonic() < BURST_SECONDS:
            self._parse()
        else:
            self.transport.pause_reading()
            self.limits.frames.ask(self._parse)

    def _parse(self) -> None:
        """Parse one turn's frames; then read on, or wait."""
        self._waits, self._frames = False, 0
        while self._unread and self._frames < TURN_FRAMES and not (self._held() or self._wait()):
            piece = bytes(self._unread[:PIECE])
            del self._unread[:PIECE]
            super().data_received(piece)
            if not self.handshake_initiated and self.conn.handshake_exc:  # as of many headers
                self.transport.write(answer(HTTPStatus.BAD_REQUEST, "invalid_handshake"))
                self.transport.close()
        if self.transport.is_closing():
            self._unread.clear()
        elif self._held():
            self.transport.pause_reading()
        elif self._unread:
            self.transport.pause_reading()
            self._waits = True
            self.loop.call_later(self._wait(), self._ask)
        else:
            self.transport.resume_reading()

    def _wait(self) -> float:
        """Return the seconds for which nothing is to be parsed, since so many frames came."""
        return max(0.0, self._due - monotonic() - BURST_SECONDS)

    def _held(self) -> bool:
        """Return whether the client has to wait: for an answer, a message's handling or itself."""
        accepted = self.handshake_complete or not self.handshake_initiated
        return not accepted or self.read_paused or not self.writable.is_set()

    def resume_writing(self) -> None:
        """Go on: the client has read."""
        super().resume_writing()
        self._go_on()

    def handle_events(self) -> None:
        """Handle frames, which take their time at the rate allowed."""
        rate = self.limits.settings.max_messages_per_second
        count, now = len(self.conn.events), monotonic()
        self._frames += count
        self._due = max(self._due, now) + count / rate
        self._few = max(self._few, now) + count / FEW_FRAMES
        super().handle_events()

    def handle_cont(self, event: Frame) -> None:
        """Take a fragment; a message of too many ends the conversation."""
        if len(self.frames) < MAX_FRAGMENTS:
            super().handle_cont(event)
            return
        self.conn.fail(CloseCode.MESSAGE_TOO_BIG, f"over {MAX_FRAGMENTS} fragments")
        self.handle_parser_exception()

    def send_receive_event_to_app(self) -> None:
        """Pass a message on; text that is none is the client's fault, and no line of the log."""
        try:
            if self.curr_msg_data_type == "text" and not self.close_sent:
                b"".join(self.frames).decode()
        except UnicodeDecodeError:
            self.frames = []
            self.conn.fail(CloseCode.INVALID_DATA, "no UTF-8")
            self.handle_parser_exception()
            return
        super().send_receive_event_to_app()

    def handle_parser_exception(self) -> None:
        """Say why the conversation is over, and let the client hear it.

        A socket that is closed while data comes is reset, and the client, which may be in the
        middle of a large message, loses what was said to it. So what it sends is dropped, until
        nothing more comes.
        """
        closed = self.conn.close_sent
        assert closed is not None
        self.queue.put_nowait(
            {"type": "websocket.disconnect", "code": closed.code, "reason": closed.reason}
        )
        self.transport.write(b"".join(self.conn.data_to_send()))
        self._unread.clear()
        self._failed, self.close_sent, self.read_paused = True, True, False
        self._close_when_quiet(-1)

    def _close_when_quiet(self, dropped: int) -> None:
        """Close if nothing has come since so many bytes were dropped; `_see_off` bounds all."""
        if self._dropped == dropped:
            self.transport.close()
        else:
            again = self._close_when_quiet
            self.close_timer = self.loop.call_later(QUIET_SECONDS, again, self._dropped)

    async def receive(self) -> "ASGIReceiveEvent":
        """Return the next event; what came before is handled."""
        if self.queue.empty():
            self.read_paused = False
            self._go_on()
        return await self.queue.get()

    async def send(self, message: "ASGISendEvent") -> None:
        """Send an event; after the handshake's answer and after a close, read on."""
        await super().send(message)
        if message["type"] != "websocket.send":
            self.handshake_complete |= self.close_sent  # a refusal is an answer, too
            self.read_paused = False
            self._go_on()

    async def run_asgi(self) -> None:
        """Run the conversation, then see the connection off."""
        await super().run_asgi()
        self._see_off(self.transport.get_write_buffer_size() + 1)

    def _see_off(self, unsent_before: int) -> None:
        """Cut the connection if nothing went out for `close_timeout`.

        Closing a transport waits for what is not sent yet, for ever if the client reads nothing.
        """
        unsent = self.transport.get_write_buffer_size()
        if 0 < unsent < unsent_before:
            self.loop.call_later(self.close_timeout, self._see_off, unsent)
        else:
            self.loop.call_later(self.close_timeout, self.transport.abort)


def bounded(connections: Connections) -> tuple[type[HttpConnection], type[WebSocketConnection]]:
    """Return the protocols of a server whose connections are counted in `connections`."""

    class Http(HttpConnection):
        limits = connections

    class WebSocket(WebSocketConnection):
        limits = connections

    return Http, WebSocket
