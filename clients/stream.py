"""A stream of speech to a Cortado server, for asyncio.

    async with connect("ws://127.0.0.1:8000/v1/stream") as stream:
        await stream.send(samples)
        await stream.end()
        async for chars in stream:
            ...

where `stream.messages()` yields the ends of utterances, too; or, with the sending done alongside,
`async for chars in transcribe_stream(url, chunks)`. A stream that is suspended (`stream.suspend()`)
goes on with `resume(url, state)`, one whose connection was lost with `reconnect(url, stream)`.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Literal
from urllib.parse import urlsplit

import numpy as np
import websockets
from numpy.typing import NDArray
from websockets.asyncio.client import ClientConnection

from cortado.server.protocol.messages import (
    DEFAULT_SAMPLE_RATE,
    Chars,
    Encoding,
    End,
    Endpoint,
    Error,
    Final,
    Ready,
    Resume,
    ServerMessage,
    Start,
    Suspend,
    Suspended,
    parse_server,
)
from cortado.server.protocol.pcm import encode

Audio = bytes | NDArray[np.float32]

OPEN_SECONDS = 10.0  # to connect, and again to be answered `ready`
MAX_MESSAGE_BYTES = 2**26  # the final message of many hours of speech


class StreamError(ConnectionError):
    """A stream that ended without its final text, with the server's code or one of ours.

    The server's codes are those of `server.protocol.messages.ErrorCode`; ours are `unreachable`,
    `refused`, `connection_lost` and `not_understood`.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Stream:
    """One stream, from `ready` to `final` or `suspended`; `connect` makes it."""

    def __init__(self, socket: ClientConnection, ready: Ready) -> None:
        self._socket = socket
        self.ready = ready
        self.final: Final | None = None  # once the iteration has ended
        self.suspended: Suspended | None = None  # after suspend(), once the iteration has ended
        self.characters = 0  # that have been yielded, of the whole stream if it was resumed
        self.utterances = 0  # whose ends have been yielded
        self.given_up = False  # by close()
        self._failure: StreamError | None = None

    async def send(self, audio: Audio) -> None:
        """Send audio of any length: bytes in the stream's encoding, or (N,) samples in [-1, 1).

        Waits while the server has enough to do.

        Raises:
            StreamError: the stream has ended.
        """
        data = audio if isinstance(audio, bytes) else encode(audio, self.ready.encoding)
        await self._say(data)

    async def end(self) -> None:
        """Say that no more audio follows; the characters that remain still come.

        Raises:
            StreamError: the stream has ended.
        """
        await self._say(End().model_dump_json())

    async def suspend(self) -> None:
        """Say that the stream goes on elsewhere; the characters that remain still come.

        The iteration then ends with what `resume` takes in `suspended`. The stream has to be at
        16 kHz.

        Raises:
            StreamError: the stream has ended.
        """
        await self._say(Suspend().model_dump_json())

    async def close(self) -> None:
        """Give the stream up, without its final text."""
        self.given_up = True
        await self._socket.close()

    async def __aiter__(self) -> AsyncIterator[Chars]:
        """Yield characters as the server decides them, until `final` or `suspended` is there.

        Raises:
            StreamError: the server ends the stream with an error, or is gone.
        """
        async for message in self.messages():
            if isinstance(message, Chars):
                yield message

    async def messages(self) -> AsyncIterator[Chars | Endpoint]:
        """Yield characters, and an `Endpoint` after those of an utterance that has ended.

        Raises:
            StreamError: the server ends the stream with an error, or is gone.
        """
        while self.final is None and self.suspended is None:
            match await self._next():
                case Chars() as chars:
                    self.characters += len(chars.text)
                    yield chars
                case Endpoint() as endpoint:
                    self.utterances = endpoint.utterance + 1
                    yield endpoint
                case Final() as final:
                    self.final = final
                case Suspended() as suspended:
                    self.suspended = suspended

    async def _next(self) -> ServerMessage:
        try:
            return await _receive(self._socket)
        except StreamError as error:
            self._failure = error
            raise

    async def _say(self, data: str | bytes) -> None:
        if (
            self._failure is not None
        ):  # the caller has it; the connection may take a moment to close
            raise self._failure
        try:
            await self._socket.send(data)
        except websockets.ConnectionClosed:
            raise await self._reason() from None

    async def _reason(self) -> StreamError:
        """Return why the stream is closed: the error that the server sent last, if it did."""
        try:
            while True:
                await _receive(self._socket)
        except StreamError as error:
            return error
        except websockets.ConcurrencyError:  # an iteration is reading and will raise it
            return StreamError("connection_lost", "the stream has ended")


@asynccontextmanager
async def connect(
    url: str,
    *,
    sample_rate: int = DEFAULT_SAMPLE_RATE,
    encoding: Encoding = "pcm_s16le",
    endpoints: bool = True,
    keep: bool = False,
) -> AsyncIterator[Stream]:
    """Open a stream at `url` (ws:// or wss://) for mono audio of that rate in Hz and encoding.

    Without `endpoints` the server takes the stream for one utterance. With `keep` it keeps it for
    `reconnect` for some time if the connection is lost.

    Raises:
        ValueError: `url` is no WebSocket address.
        StreamError: the server is not there, refuses, or does not answer.
    """
    start = Start(sample_rate=sample_rate, encoding=encoding, endpoints=endpoints, keep=keep)
    async with _greeted(url, start) as (socket, ready):
        yield Stream(socket, ready)


@asynccontextmanager
async def resume(
    url: str, state: Suspended, *, encoding: Encoding = "pcm_s16le", keep: bool = False
) -> AsyncIterator[Stream]:
    """Go on with a suspended stream at 16 kHz, at any server that has its key, model and backend.

    Raises:
        ValueError: `url` is no WebSocket address.
        StreamError: the server is not there, refuses (`invalid_state`), or does not answer.
    """
    message = Resume(state=state.state, encoding=encoding, keep=keep)
    async with _greeted(url, message) as (socket, ready):
        stream = Stream(socket, ready)
        stream.characters = state.characters
        yield stream


@asynccontextmanager
async def reconnect(url: str, lost: Stream) -> AsyncIterator[Stream]:
    """Go on with a stream that was opened with `keep` and whose connection was lost.

    `ready.received` says how many samples of the stream the server has: send from there on. What
    `lost` has not yielded is yielded first.

    Raises:
        ValueError: `url` is no WebSocket address.
        StreamError: the server is not there, keeps no such stream (`unknown_stream`), refuses, or
            does not answer.
    """
    if lost.ready.token is None:
        raise StreamError("unknown_stream", "expected a stream that the server keeps, got another")
    message = Resume(token=lost.ready.token, characters=lost.characters, utterances=lost.utterances)
    async with _greeted(url, message) as (socket, ready):
        stream = Stream(socket, ready)
        stream.characters, stream.utterances = lost.characters, lost.utterances
        yield stream


@asynccontextmanager
async def _greeted(
    url: str, start: Start | Resume
) -> AsyncIterator[tuple[ClientConnection, Ready]]:
    """Open a connection, say the first message, and hear the server's."""
    socket = await _open(url)
    try:
        with suppress(websockets.ConnectionClosed):  # what was said before the close tells why
            await socket.send(start.model_dump_json(exclude_none=True))
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                ready = await _receive(socket)
        except TimeoutError:
            message = f"expected ready within {OPEN_SECONDS:g} s, got nothing"
            raise StreamError("unreachable", message) from None
        if not isinstance(ready, Ready):
            raise StreamError("not_understood", f"expected ready, got {ready.type}")
        yield socket, ready
    finally:
        await socket.close()


async def transcribe_stream(
    url: str,
    chunks: AsyncIterable[Audio] | Iterable[Audio],
    *,
    sample_rate: int = DEFAULT_SAMPLE_RATE,
    encoding: Encoding = "pcm_s16le",
) -> AsyncIterator[Chars]:
    """Send `chunks` to the server and yield its characters meanwhile, until the last.

    Raises:
        ValueError: `url` is no WebSocket address.
        StreamError: the server is not there or ends the stream with an error.
        Exception: whatever `chunks` raises; the stream is then given up.
    """
    async with connect(url, sample_rate=sample_rate, encoding=encoding) as stream:
        sending = asyncio.create_task(_send_all(stream, chunks))
        try:
            async for chars in stream:
                yield chars
        except StreamError:
            if stream.given_up:
                await sending  # raises what went wrong with the chunks
            raise
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)


async def _send_all(stream: Stream, chunks: AsyncIterable[Audio] | Iterable[Audio]) -> None:
    try:
        if isinstance(chunks, AsyncIterable):
            async for chunk in chunks:
                await stream.send(chunk)
        else:
            for chunk in chunks:
                await stream.send(chunk)
        await stream.end()
    except StreamError:
        raise
    except BaseException:
        await stream.close()  # or the server would wait for audio that does not come
        raise


async def _open(url: str) -> ClientConnection:
    proxy: Literal[True] | None = None if _is_loopback(url) else True
    try:
        return await websockets.connect(
            url,
            open_timeout=OPEN_SECONDS,
            max_size=MAX_MESSAGE_BYTES,
            compression=None,  # speech does not shrink, and trying costs more than it saves
            proxy=proxy,
        )
    except websockets.InvalidURI as error:
        raise ValueError(f"expected an address like ws://host:8000/v1/stream, got {url}") from error
    except websockets.InvalidHandshake as error:
        raise StreamError("refused", f"{url}: {error}") from error
    except (OSError, TimeoutError, EOFError) as error:
        reason = str(error) or f"no answer within {OPEN_SECONDS:g} s"
        raise StreamError("unreachable", f"no server at {url}: {reason}") from error


def _is_loopback(url: str) -> bool:
    return urlsplit(url).hostname in {"localhost", "127.0.0.1", "::1"}


async def _receive(socket: ClientConnection) -> ServerMessage:
    """Return the server's next message; those of types that are not known here are ignored.

    Raises:
        StreamError: it is an error, is none, or the connection is closed.
    """
    while True:
        message = _read(await _frame(socket))
        if isinstance(message, Error):
            raise StreamError(message.code.value, message.message)
        if message is not None:
            return message


async def _frame(socket: ClientConnection) -> str | bytes:
    try:
        return await socket.recv()
    except websockets.ConnectionClosed as closed:
        raise StreamError("connection_lost", f"the connection was lost: {closed}") from closed


def _read(data: str | bytes) -> ServerMessage | None:
    if isinstance(data, bytes):
        raise StreamError("not_understood", f"expected text, got {len(data)} bytes")
    try:
        return parse_server(data)
    except ValueError as error:
        raise StreamError("not_understood", f"expected a message, got {data[:80]!r}") from error
