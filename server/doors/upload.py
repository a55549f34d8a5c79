"""A file that came over HTTP, as a client of the protocol: it sends samples and reads answers."""

import asyncio
import hashlib
import logging
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from starlette.requests import Request

from cortado.model.audio.decode import decoded
from cortado.model.audio.error import AudioError
from cortado.model.audio.frames import Channel
from cortado.model.captions import Word
from cortado.server.doors.audio import NAME, decoder
from cortado.server.doors.body import bounded
from cortado.server.doors.own import Own
from cortado.server.protocol.messages import (
    Chars,
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
from cortado.server.protocol.parsing import parse_server
from cortado.server.protocol.words import Segment
from cortado.server.service import Service

CHUNK = 65_536  # bytes of a file that are read at a time
MESSAGE = 64_000  # bytes of a message, a second of samples
WAITING = 64  # messages that may wait for who reads them

logger = logging.getLogger(__name__)


class File(NamedTuple):
    """A body that was received."""

    content: BinaryIO
    sha256: str


async def receive(request: Request, limit: int, draining: asyncio.Event) -> File:
    """Return a request's body in a temporary file, which is gone once it is closed.

    Raises:
        ProtocolError: it has more bytes than `limit`, or does not come as a whole before the
            server is `draining`.
        OSError: there is no room for it.
    """
    content, digest = cast(BinaryIO, tempfile.TemporaryFile()), hashlib.sha256()  # noqa: SIM115
    try:
        whole = bounded(request, limit, f"a file of at most {limit} bytes", draining)
        async for chunk in whole.stream():
            digest.update(chunk)
            await asyncio.to_thread(content.write, chunk)  # a slow disk holds up no stream
        content.seek(0)
    except BaseException:
        with suppress(OSError):  # it tries to write what is left
            content.close()
        raise
    return File(content, digest.hexdigest())


class Upload:
    """A client in this process, in place of a websocket: it speaks the protocol's own dialect."""

    def __init__(self, start: Start, audio: Iterator[bytes], most: int) -> None:
        """Send audio in messages of at most so many bytes."""
        self._start, self._audio = start, audio
        self._size = min(MESSAGE, most // 4 * 4)
        self._frames = self._messages()
        self.answers: asyncio.Queue[ServerMessage | None] = asyncio.Queue(WAITING)

    async def _messages(self) -> AsyncIterator[str | bytes]:
        yield self._start.model_dump_json()
        waiting = b""
        while (piece := await asyncio.to_thread(self._next)) is not None:
            waiting += piece
            while len(waiting) >= self._size:
                yield waiting[: self._size]
                waiting = waiting[self._size :]
        yield waiting
        yield End().model_dump_json()

    def _next(self) -> bytes | None:
        """Return the next piece, None at the end; it may be empty, for threads are lent."""
        found = bytearray()
        for piece in self._audio:
            found += piece
            if len(found) >= self._size or not piece:
                return bytes(found)
        return bytes(found) or None

    async def receive(self) -> dict[str, Any]:
        """Return the next message; after the last, wait to be cancelled."""
        try:
            async for frame in self._frames:
                kind = "text" if isinstance(frame, str) else "bytes"
                return {"type": "websocket.receive", kind: frame}
        except AudioError as error:
            raise ProtocolError(ErrorCode.INVALID_AUDIO, str(error)) from None
        await asyncio.Event().wait()
        raise AssertionError("expected to be cancelled")

    async def send_text(self, data: str) -> None:
        """Take an answer."""
        await self.answers.put(parse_server(data))

    async def close(self, code: int = 1000, reason: str | None = None) -> None:
        """Take the end."""
        await self.answers.put(None)


def open_upload(
    file: BinaryIO,
    most: int,
    encoding: str | None = None,
    rate: int = 16_000,
    channels: int = 1,
    channel: Channel | None = None,
    **said: object,
) -> Upload:
    """Return the client that sends a file, which has a raw `encoding` if that is given.

    It sends one `channel`, or the mean of all; `said` are other fields of `Start`.

    Raises: ProtocolError if the file is empty.
    """
    if not file.read(1):
        raise ProtocolError(ErrorCode.INVALID_AUDIO, f"{NAME}: expected a file, got an empty one")
    file.seek(0)
    if encoding is None:
        decoding = decoded(Path(NAME), file, channel)
        pieces = (piece.astype("<f4").tobytes() for piece in decoding)
        start = Start(encoding="pcm_f32le").model_copy(update=said)
        return Upload(start, pieces, most)
    start, source = decoder(encoding, rate, channels, channel, **said)

    def audio() -> Iterator[bytes]:
        try:
            while chunk := file.read(CHUNK):
                yield from source.push(chunk)
            yield from source.end()
        finally:
            source.close()

    return Upload(start, audio(), most)


async def _hung_up(request: Request) -> None:
    """Return once the client of a request, whose body has come, has hung up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def answers(
    service: Service, upload: Upload, request: Request
) -> AsyncGenerator[ServerMessage, None]:
    """Yield what the service answers to an upload, as long as the client of the request waits.

    Raises: ProtocolError if it ended with an error, or the client has hung up.
    """
    talk = asyncio.create_task(service.talk(upload, Own()))
    gone = asyncio.create_task(_hung_up(request))
    tasks: list[asyncio.Task[Any]] = [talk, gone]
    try:
        while True:
            answer = asyncio.create_task(upload.answers.get())
            tasks[2:] = [answer]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                raise ProtocolError(ErrorCode.SLOW_CLIENT, "expected a client that waits")
            if not answer.done():
                fault = None if talk.cancelled() else talk.exception()
                logger.error("session failed", exc_info=fault)
                raise ProtocolError(ErrorCode.INTERNAL_ERROR, "the server failed")
            if (message := answer.result()) is None:
                return
            if isinstance(message, Error):
                raise ProtocolError(message.code, message.message)
            yield message
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Heard(NamedTuple):
    """What was heard in a file."""

    session: str
    model: str
    utterances: list[list[Word]]
    duration: float  # seconds

    @property
    def words(self) -> list[Word]:
        """All words."""
        return [word for words in self.utterances for word in words]


async def collected(messages: AsyncIterator[ServerMessage]) -> Heard:
    """Return what was heard, when all answers have come.

    Raises: ProtocolError if it ended with an error.
    """
    segment, utterances, session, model, duration = Segment(), list[list[Word]](), "", "", 0.0
    async for message in messages:
        match message:
            case Ready():
                session, model = message.session, message.model
            case Chars():
                segment.add(message)
            case Endpoint():
                utterances.append(segment.take(message.words))
            case Final():
                utterances.append(segment.take(message.words))
                duration = message.duration
    return Heard(session, model, [words for words in utterances if words], duration)
