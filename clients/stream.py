"""A stream of speech to a Cortado server, for asyncio; it goes on when its connection is lost.

    async with connect("ws://127.0.0.1:8000/v1/stream") as stream:
        await stream.send(samples)
        await stream.end()
        async for chars in stream:
            ...

where `stream.messages()` yields the ends of utterances, too. A stream that is suspended
(`stream.suspend()`) goes on with `resume(url, state)`. `cortado.stream` does all of it for audio of
any kind.

A lost connection loses nothing: the stream connects again, goes on where the server stopped
hearing, and sends what came in between. Where the server cannot go on, because it was restarted, it
begins anew after the last character that came. docs/protocol.md describes the messages.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cortado.clients.connection import Connection, StreamError, open_connection
from cortado.clients.part import Part, ReplayBuffer
from cortado.server.protocol.messages import (
    DEFAULT_SAMPLE_RATE,
    SAMPLE_BYTES,
    Acknowledged,
    Chars,
    Encoding,
    End,
    Endpoint,
    Final,
    Ready,
    Start,
    Suspend,
    Suspended,
)
from cortado.server.protocol.parsing import start_of
from cortado.server.protocol.pcm import encode

Bytes = bytes | bytearray | memoryview
Audio = Bytes | NDArray[np.float32]
State = Literal["open", "lost", "ended"]

PIECE_SECONDS = 0.25  # of audio in a message, at most
AHEAD_SECONDS = 1.0  # of audio that may wait here while the server reads
HELD_SECONDS = 600.0  # of audio that are held for a lost connection, and for how long is tried
WAITING_MESSAGES = 100_000  # that nobody has read yet; then the server waits
STEADY_SECONDS = 10.0  # that a connection has to last to count as a good one
BACKOFF_SECONDS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)  # before each attempt, the last for all others
# The server cannot go on with this stream; it may begin another.
GONE = {"unknown_stream", "invalid_state", "stream_too_long"}
# Trying again would end in the same way.
FATAL = {
    "unauthorized",
    "taken_over",
    "invalid_message",
    "unexpected_message",
    "unsupported_encoding",
    "unsupported_sample_rate",
    "invalid_audio",
    "message_too_big",
    "not_understood",
}


class Stream:
    """One stream, from `ready` to `final` or `suspended`; `connect` makes it.

    All that it yields counts from the stream's beginning, over how many connections it may come.
    """

    def __init__(
        self, url: str, key: str | None, part: Part, connection: Connection, ready: Ready
    ) -> None:
        self.ready = ready  # of the latest connection
        self.state: State = "open"  # "lost" while it connects again
        self.restarts: list[float] = []  # seconds at which a server began anew
        self.final: Final | None = None  # once it has ended; of a restarted stream, of its rest
        self.last: Endpoint | None = (
            None  # the end of the utterance that the stream's end has ended
        )
        self.suspended: Suspended | None = None  # after suspend(), once the iteration has ended
        self._url, self._key, self._part, self._connection = url, key, part, connection
        self._bytes = SAMPLE_BYTES[part.start.encoding]
        self._second = part.start.sample_rate * self._bytes  # bytes
        self._cursor = ready.received * self._bytes  # the next byte to send
        self._audio = ReplayBuffer(self._cursor)
        self._stored: int | None = None  # bytes of the whole before what has to be held, if said
        self._last = ""  # what to send after the audio: end or suspend
        self._messages: asyncio.Queue[Chars | Endpoint | None] = asyncio.Queue(WAITING_MESSAGES)
        self._more, self._room = asyncio.Event(), asyncio.Event()  # audio to send, room for more
        self._attempts, self._good_at = 0, 0.0  # since the last good connection, and when it was
        self._failure: Exception | None = None
        self._begin(ready)
        self._running = asyncio.create_task(self._run())

    async def send(self, audio: Audio) -> None:
        """Send audio of any length: bytes in the stream's encoding, or (N,) samples in [-1, 1).

        Waits while the server has enough to do, or while much is held for a lost connection.

        Raises:
            StreamError: the stream has ended.
            ValueError: the samples are no finite floats, or the stream has an encoding of bytes.
        """
        if self._last:
            raise StreamError("closed", "audio came after the end of the stream")
        encoding = self._part.start.encoding
        data = bytes(audio) if isinstance(audio, Bytes) else encode(np.asarray(audio), encoding)
        for start in range(0, len(data), self._second):
            await self._room.wait()
            self._check()
            self._audio.append(data[start : start + self._second])
            self._more.set()
            self._make_room()

    async def end(self) -> None:
        """Say that no more audio follows; the characters that remain still come.

        Raises: StreamError if the stream has ended.
        """
        self._conclude(End().model_dump_json())

    async def suspend(self) -> None:
        """Say that the stream goes on elsewhere; the characters that remain still come.

        The iteration then ends with what `resume` takes in `suspended`.

        Raises:
            StreamError: the stream has ended.
            ValueError: it is not at 16 kHz, so it cannot be suspended, but goes on.
        """
        if (rate := self._part.start.sample_rate) != DEFAULT_SAMPLE_RATE:
            raise ValueError(f"expected a stream at {DEFAULT_SAMPLE_RATE} Hz, got one at {rate} Hz")
        self._conclude(Suspend().model_dump_json())

    async def close(self, reason: Exception | None = None) -> None:
        """Give the stream up, without its final text; `reason` is what the iteration raises."""
        if self.state != "ended":
            self._failure = reason or StreamError("closed", "the stream was given up")
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)
        await self._connection.close()

    async def __aiter__(self) -> AsyncIterator[Chars]:
        """Yield characters as the server decides them, until `final` or `suspended` is there.

        Raises: StreamError if the stream cannot go on.
        """
        async for message in self.messages():
            if isinstance(message, Chars):
                yield message

    async def messages(self) -> AsyncIterator[Chars | Endpoint]:
        """Yield characters, and an `Endpoint` after those of an utterance that has ended.

        Raises: StreamError if the stream cannot go on.
        """
        while self.state != "ended" or not self._messages.empty():
            if (message := await self._messages.get()) is not None:
                yield message
            else:
                self._messages.put_nowait(None)  # for whoever else reads
                break
        self._check()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _conclude(self, last: str) -> None:
        self._check()
        self._last = last
        self._more.set()

    def _make_room(self) -> None:
        """Let go of audio that is not needed again, and let more in where there is room.

        A server that stores the stream says how much of it; of another, what is decided is safe.
        """
        decided = round(self._part.decided * self._part.start.sample_rate) * self._bytes
        stored = decided if self._stored is None else self._stored
        enough = max(stored, self._audio.end - round(HELD_SECONDS * self._second))
        self._audio.release(min(enough, self._cursor))
        limit = HELD_SECONDS if self.state == "lost" else AHEAD_SECONDS
        if self.state == "ended" or self._audio.end - self._cursor < limit * self._second:
            self._room.set()
        else:
            self._room.clear()

    async def _run(self) -> None:
        """Send and receive over one connection after another, until the stream has ended."""
        try:
            while lost := await self._converse():
                await self._reconnect(lost)
        except Exception as error:
            self._failure = error
        finally:
            self.state = "ended"
            self._make_room()
            with suppress(asyncio.QueueFull):  # then nobody waits for it
                self._messages.put_nowait(None)

    async def _converse(self) -> StreamError | None:
        """Send and receive over one connection; return how it was lost, None for a good end.

        Raises: StreamError if the stream cannot go on.
        """
        sending = asyncio.create_task(self._send_all())
        try:
            while self.final is None and self.suspended is None:
                await self._receive()
            return None
        except StreamError as error:
            if not self._part.start.keep or error.code in FATAL:
                raise
            return error
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _send_all(self) -> None:
        """Send audio as it comes, and after it the last message."""
        while True:
            self._more.clear()
            while data := self._audio.read(self._cursor, round(PIECE_SECONDS * self._second)):
                await self._connection.send(data)
                self._cursor += len(data)
                self._make_room()
            if self._last:
                return await self._connection.send(self._last)
            await self._more.wait()

    async def _receive(self) -> None:
        match await self._connection.receive():
            case Chars() as chars:
                self._attempts = 0
                await self._messages.put(self._part.chars(chars))
            case Endpoint() as endpoint:
                await self._messages.put(self._part.endpoint(endpoint))
            case Acknowledged() as acknowledged:
                self._stored = (self._part.base + acknowledged.received) * self._bytes
            case Final() as final:
                self.final, self.last = final, self._part.rest(final)
            case Suspended() as suspended:
                self.suspended = suspended
        self._make_room()

    async def _reconnect(self, lost: StreamError) -> None:
        """Connect again until it works.

        Raises: StreamError if it does not work for a long time, or never will.
        """
        self.state = "lost"
        self._make_room()
        await self._connection.close()
        if not self._attempts or time.monotonic() - self._opened_at > STEADY_SECONDS:
            self._attempts, self._good_at = 0, time.monotonic()
        while time.monotonic() - self._good_at < HELD_SECONDS:
            wait = BACKOFF_SECONDS[min(self._attempts, len(BACKOFF_SECONDS) - 1)]
            await asyncio.sleep(wait * random.uniform(0.75, 1.25))
            self._attempts += 1
            if not self._part.resumable:
                await self._begin_anew()
            try:
                self._connection, ready = await open_connection(
                    self._url, self._part.hello, self._key
                )
                return self._begin(ready)
            except StreamError as error:
                if error.code in FATAL:
                    raise
                lost = error
                await self._connection.close()
                if error.code in GONE:
                    self._part.token = self._part.state = None
        raise lost

    def _begin(self, ready: Ready) -> None:
        """Go on where a server that has said `ready` stopped hearing."""
        cursor = (self._part.base + ready.received) * self._bytes
        if cursor < self._audio.start:
            raise StreamError("unknown_stream", "the server needs audio that is no longer held")
        self._part.token, self._part.state = ready.token, None
        self.ready, self._cursor, self.state = ready, cursor, "open"
        self._opened_at = time.monotonic()
        self._make_room()

    async def _begin_anew(self) -> None:
        """Begin a part after the last character that came; its utterance ends there."""
        if (endpoint := self._part.cut()) is not None:
            await self._messages.put(endpoint)
        rate = self._part.start.sample_rate
        base = max(round(self._part.decided * rate), self._audio.start // self._bytes)
        self._part = self._part.following(base)
        self._cursor, self._stored = base * self._bytes, None
        if not self.restarts or self.restarts[-1] != base / rate:
            self.restarts.append(base / rate)


@asynccontextmanager
async def connect(
    url: str,
    *,
    sample_rate: int = DEFAULT_SAMPLE_RATE,
    encoding: Encoding = "pcm_s16le",
    endpoints: bool = True,
    keep: bool = True,
    silence_ms: int | None = None,
    phrases: Sequence[str] = (),
    alternatives: int = 0,
    key: str | None = None,
) -> AsyncIterator[Stream]:
    """Open a stream at `url` (ws:// or wss://) for mono audio of that rate in Hz and encoding.

    Without `endpoints` the server takes the stream for one utterance; `silence_ms` of silence end
    one, 300 to 5000, if given. Without `keep` the server does not keep the stream, which ends where
    its connection is lost. `phrases`, such as names, are likely to be said: at most 100. Where so
    many `alternatives` are asked for, up to 10, the ends of utterances (`messages`) and the final
    text have `texts`. `key` is the server's API key; if not given, it is that of the environment
    (`CORTADO_API_KEY`).

    Raises:
        ValueError: `url` is no WebSocket address, rate or silence are out of range, the encoding is
            not raw, the phrases are a text, or they or the alternatives are too many.
        StreamError: the server is not there, refuses, or does not answer.
    """
    if isinstance(phrases, str):
        raise ValueError(f"expected phrases as a list of texts, got the text {phrases!r}")
    start = _start(
        sample_rate=sample_rate,
        encoding=encoding,
        endpoints=endpoints,
        keep=keep,
        silence_ms=silence_ms,
        phrases=tuple(phrases),
        alternatives=alternatives,
    )
    async with _opened(url, key, Part(start)) as stream:
        yield stream


@asynccontextmanager
async def resume(
    url: str,
    state: Suspended,
    *,
    encoding: Encoding = "pcm_s16le",
    keep: bool = True,
    key: str | None = None,
) -> AsyncIterator[Stream]:
    """Go on with a suspended stream at 16 kHz, where `state_key`, model and backend are its own.

    `ready.received` says from which sample of the stream on to send.

    Raises:
        ValueError: `url` is no WebSocket address, or the encoding is not raw.
        StreamError: the server is not there, refuses (`invalid_state`), or does not answer.
    """
    start = _start(encoding=encoding, keep=keep)
    part = Part(start, state=state.state, characters=state.characters)
    async with _opened(url, key, part) as stream:
        yield stream


def _start(encoding: Encoding, **fields: object) -> Start:
    """Return how a stream of raw samples begins.

    Raises: ValueError if the encoding is another, or a field is wrong.
    """
    if encoding not in SAMPLE_BYTES:
        expected = f"expected an encoding of samples ({', '.join(SAMPLE_BYTES)})"
        raise ValueError(f"{expected}, got {encoding!r}; a file of any kind is given by its path")
    return start_of(encoding=encoding, **fields)


@asynccontextmanager
async def _opened(url: str, key: str | None, part: Part) -> AsyncIterator[Stream]:
    connection, ready = await open_connection(url, part.hello, key)
    stream = Stream(url, key, part, connection, ready)
    try:
        yield stream
    finally:
        await stream.close()
