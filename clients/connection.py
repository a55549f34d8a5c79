"""One connection to a Cortado server: open it, send, and read messages until it is closed."""

import asyncio
import os
import ssl
from contextlib import suppress
from http import HTTPStatus
from typing import Literal
from urllib.parse import urlsplit

import websockets
from websockets.asyncio.client import ClientConnection
from websockets.uri import parse_uri

from cortado.server.protocol.messages import (
    Error,
    Ready,
    Resume,
    ServerMessage,
    Start,
)
from cortado.server.protocol.parsing import parse_server

OPEN_SECONDS = 10.0  # to connect, and again to be answered `ready`
PING_SECONDS = 20.0  # between two pings
PONG_SECONDS = 40.0  # without a pong or a message after which the connection is lost
CLOSE_SECONDS = 1.0  # that a server which has more to read has to answer a close
MAX_MESSAGE_BYTES = 2**26  # the final message of many hours of speech
KEY_VARIABLE = "CORTADO_API_KEY"  # of the environment: the key of who says none

# What helps where a server refuses the connection, by its HTTP status.
ADVICE = {
    403: "it takes no stream from this page: name the page's origin in its allowed_origins",
    404: "no stream is at this address, which has to end in /v1/stream",
    421: "it does not know itself by this name: add the name to its allowed_hosts",
    429: "it has as many streams as one key or address may have: end one, or come again later",
    503: "it is full, starting or stopping: come again later",
}


class StreamError(ConnectionError):
    """A stream that ended without its final text, with the server's code or one of ours.

    The server's codes are those of `server.protocol.messages.ErrorCode`; ours are `unreachable`,
    `unauthorized`, `refused`, `connection_lost`, `not_understood` and `closed`.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Connection:
    """A connection whose first message was answered with `ready`; `open_connection` makes it."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self._heard = 0  # frames that have come
        self._watching = asyncio.create_task(self._watch())

    async def send(self, data: str | bytes) -> None:
        """Send a message, and wait while the server has enough to do.

        What is sent to a connection that is closed is lost: `receive` says that it is.
        """
        with suppress(websockets.ConnectionClosed):
            await self.socket.send(data)

    async def receive(self) -> ServerMessage:
        """Return the server's next message; those of types that are not known here are ignored.

        Raises: StreamError if it is an error, is none, or the connection is closed.
        """
        while True:
            message = _read(await self._frame())
            if isinstance(message, Error):
                raise StreamError(message.code.value, message.message)
            if message is not None:
                return message

    async def close(self) -> None:
        """Close it."""
        self._watching.cancel()
        await self.socket.close()

    async def _watch(self) -> None:
        """Cut the connection once nothing comes over it any more.

        A pong waits behind all audio that the server has yet to read, which at a busy server may
        be minutes: so messages count as well.
        """
        while True:
            heard = self._heard
            try:
                async with asyncio.timeout(PONG_SECONDS):
                    await (await self.socket.ping())
            except websockets.ConnectionClosed:
                return
            except TimeoutError:
                if self._heard == heard:
                    self.socket.transport.abort()
                    return
            await asyncio.sleep(PING_SECONDS)

    async def _frame(self) -> str | bytes:
        try:
            frame = await self.socket.recv()
            self._heard += 1
            return frame
        except websockets.ConnectionClosed as closed:
            raise StreamError("connection_lost", f"the connection was lost: {closed}") from closed


async def open_connection(
    url: str, hello: Start | Resume, key: str | None = None
) -> tuple[Connection, Ready]:
    """Open a connection, send its first message, and return it with the server's answer.

    Without a `key` the environment's is sent, if it has one (`CORTADO_API_KEY`).

    Raises:
        ValueError: `url` is no WebSocket address.
        StreamError: the server is not there, refuses, or does not answer.
    """
    connection = Connection(await _open(url, _plain(key or os.environ.get(KEY_VARIABLE) or "")))
    try:
        await connection.send(hello.model_dump_json(exclude_none=True))
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                ready = await connection.receive()
        except TimeoutError:
            message = f"expected ready within {OPEN_SECONDS:g} s, got nothing"
            raise StreamError("unreachable", message) from None
        if not isinstance(ready, Ready):
            raise StreamError("not_understood", f"expected ready, got {ready.type}")
    except BaseException:
        await connection.close()
        raise
    return connection, ready


def check_address(url: str) -> None:
    """Look, before anything else is asked for, whether an address is a stream's.

    Raises: ValueError if it is no WebSocket address.
    """
    try:
        parse_uri(url)
    except (websockets.InvalidURI, ValueError) as error:  # such as of a port that is no number
        raise ValueError(f"expected an address like ws://host:8000/v1/stream, got {url}") from error


def _plain(key: str) -> str:
    """Return a key without the space around it, as of a file that ends a line.

    Raises: StreamError, without the key, if no header could hold it.
    """
    key = key.strip()
    if not key.isascii() or not key.isprintable():
        raise StreamError("unauthorized", "expected an API key of printable ASCII, got another")
    return key


async def _open(url: str, key: str) -> ClientConnection:
    check_address(url)
    proxy: Literal[True] | None = None if _is_loopback(url) else True
    try:
        return await websockets.connect(
            url,
            additional_headers={"Authorization": f"Bearer {key}"} if key else None,
            open_timeout=OPEN_SECONDS,
            close_timeout=CLOSE_SECONDS,
            max_size=MAX_MESSAGE_BYTES,
            ping_interval=None,  # the connection's own pings know that messages are signs of life
            compression=None,  # speech does not shrink, and trying costs more than it saves
            proxy=proxy,
        )
    except websockets.InvalidStatus as error:
        raise _refusal(url, key, error.response.status_code) from error
    except (websockets.InvalidHandshake, websockets.InvalidURI) as error:  # of a redirect
        raise StreamError("refused", f"{url}: {error}") from error
    except (websockets.InvalidProxy, ImportError) as error:  # SOCKS needs a package more
        raise StreamError("refused", f"{url} by the environment's proxy: {error}") from error
    except ssl.SSLError as error:
        untrusted = isinstance(error, ssl.SSLCertVerificationError)
        advice = "SSL_CERT_FILE names whom to trust" if untrusted else "is it ws:// there?"
        raise StreamError("refused", f"no https at {url} ({advice}): {error}") from error
    except (OSError, TimeoutError, EOFError) as error:
        reason = str(error) or f"no answer within {OPEN_SECONDS:g} s"
        advice = "cortado serve starts one" if _is_loopback(url) else "is the address right?"
        raise StreamError("unreachable", f"no server at {url} ({advice}): {reason}") from error


def _refusal(url: str, key: str, status: int) -> StreamError:
    """Return what an HTTP status in place of a stream means, and what helps."""
    if status == HTTPStatus.UNAUTHORIZED:
        known = f"does not know this API key: give {KEY_VARIABLE} another"
        wanted = f"wants an API key: set {KEY_VARIABLE}"
        return StreamError("unauthorized", f"the server at {url} {known if key else wanted}")
    advice = ADVICE.get(status, "it is no Cortado server, or a proxy before it failed")
    return StreamError("refused", f"{url} answered HTTP {status}: {advice}")


def _is_loopback(url: str) -> bool:
    return urlsplit(url).hostname in {"localhost", "127.0.0.1", "::1"}


def _read(data: str | bytes) -> ServerMessage | None:
    if isinstance(data, bytes):
        raise StreamError("not_understood", f"expected text, got {len(data)} bytes")
    try:
        return parse_server(data)
    except ValueError as error:
        expected = "does the address end in /v1/stream? expected a message of Cortado's"
        raise StreamError("not_understood", f"{expected}, got {data[:80]!r}") from error
