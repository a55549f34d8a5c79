"""`cortado serve`: one process on one socket, until it is stopped."""

import errno
import socket
from asyncio import BaseTransport
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from cortado.server import logs
from cortado.server.app import create_app
from cortado.server.service import Service, load
from cortado.server.settings import Settings

WRITE_BUFFER = 16_384  # bytes; some seconds of messages
HARD_LIMIT = 4  # times max_message_bytes; up to there a message is refused with words


def run(settings: Settings, announce: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; `announce` is given the line that says where.

    Raises:
        ValueError: the address cannot be listened on, or the checkpoint cannot be used.
    """
    with listen(settings) as listener:
        server = Server(load(settings), announce)
        logs.configure(settings)
        server.run(sockets=[listener])


def listen(settings: Settings) -> socket.socket:
    """Return a socket bound to the address of `settings`.

    Raises:
        ValueError: the address is taken or is not this machine's.
    """
    where = f"{settings.host} port {settings.port}"
    try:
        found = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise ValueError(f"expected an address to listen on, got {where}: {error}") from error
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_buffer_bytes)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise ValueError(_why(error, where)) from error
    return listener


def _why(error: OSError, where: str) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"{where} is taken by another program: stop it, or choose a --port"
    return f"expected to listen on {where}, got: {error.strerror}"


def address(listener: socket.socket) -> str:
    """Return the URL under which a browser on this machine finds `listener`."""
    host, port = listener.getsockname()[:2]
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{here}]:{port}" if ":" in here else f"http://{here}:{port}"


class Server(uvicorn.Server):
    """Uvicorn, which says where it listens and lets streams take leave before it stops."""

    def __init__(self, service: Service, announce: Callable[[str], None]) -> None:
        self.service = service
        self._announce = announce
        super().__init__(_config(service))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening, and say where."""
        await super().startup(sockets)
        if self.started and sockets:
            self._announce(f"Cortado listens: open {address(sockets[0])} (Ctrl-C stops it)")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Tell the streams, then stop; uvicorn alone would cut them off without a word."""
        await self.service.drain()
        await super().shutdown(sockets)


class StreamConnection(WebSocketsSansIOProtocol):
    """A connection that a client which does not read cannot keep open, nor fill with messages."""

    close_timeout: float  # seconds

    def __init__(self, *arguments: Any, **options: Any) -> None:
        timeout = self.close_timeout  # uvicorn sets its own
        super().__init__(*arguments, **options)
        self.close_timeout = timeout

    def connection_made(self, transport: BaseTransport) -> None:
        """Begin; hold back messages from a client that has WRITE_BUFFER bytes to read."""
        super().connection_made(transport)
        self.transport.set_write_buffer_limits(high=WRITE_BUFFER)

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


def _config(service: Service) -> uvicorn.Config:
    settings = service.settings

    class Connection(StreamConnection):
        close_timeout = settings.close_timeout_seconds

    return uvicorn.Config(
        create_app(service),
        ws=Connection,
        ws_max_size=HARD_LIMIT * settings.max_message_bytes,
        ws_ping_interval=None,  # docs/protocol.md says why
        ws_per_message_deflate=False,  # speech does not shrink, and zeros could swell
        limit_concurrency=2 * settings.max_connections,
        timeout_graceful_shutdown=round(settings.close_timeout_seconds) + 1,
        log_config=None,
        access_log=False,
        server_header=False,
    )
