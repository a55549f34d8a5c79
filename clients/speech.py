"""`for word in cortado.stream("talk.wav")`: audio of any kind through a server, word by word."""

import asyncio
import threading
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from os import PathLike
from pathlib import Path

import numpy as np

from cortado.clients import words
from cortado.clients.connection import StreamError
from cortado.clients.iteration import Results
from cortado.clients.microphone import Microphone
from cortado.clients.stream import Audio, Bytes, Stream, connect
from cortado.clients.words import Utterance
from cortado.model.audio.decode import stream as decoded
from cortado.model.captions import Word
from cortado.model.emission import Character
from cortado.server.protocol.messages import DEFAULT_SAMPLE_RATE, Chars, Encoding, Endpoint

Pieces = Iterable[Audio] | AsyncIterable[Audio]
Source = str | PathLike[str] | Microphone | Audio | Pieces

FLOATS: Encoding = "pcm_f32le"  # as they are: what is rounded may be heard as another word
SERVER = "ws://127.0.0.1:8000/v1/stream"  # of `cortado serve` on this machine


class Speech(Results[Word]):
    """What is heard in audio while it is sent: words, or one of the units below.

    Raises, while it is iterated over:
        AudioError: the file gives no sound.
        MicrophoneError: the microphone cannot be used.
        StreamError: the server is not there, refuses, or cannot go on.
        Exception: whatever the audio's iterator raises.
    """

    def __init__(self, messages: Callable[[], AsyncIterator[Chars | Endpoint]]) -> None:
        super().__init__(lambda: words.words(messages()))
        self._messages = messages

    @property
    def characters(self) -> Results[Character]:
        """Each character as soon as it is decided, the spaces among them."""
        return Results(lambda: words.characters(self._messages()))

    @property
    def utterances(self) -> Results[Utterance]:
        """Each utterance when it has ended, with its words."""
        return Results(lambda: words.utterances(self._messages()))


def stream(
    audio: Source,
    url: str | None = None,
    *,
    sample_rate: int = DEFAULT_SAMPLE_RATE,
    encoding: Encoding = "pcm_s16le",
    silence_ms: int | None = None,
    phrases: Sequence[str] = (),
    alternatives: int = 0,
    key: str | None = None,
) -> Speech:
    """Return the words that a server hears in audio, to be iterated over.

    It sends while it is read, and goes on by itself when the connection is lost.

    Args:
        audio: a file of any common kind; a `Microphone`; samples as bytes or as (N,) floats in
            [-1, 1); or any iterable of such samples, asynchronous or not.
        url: of the server's stream, ws:// or wss://; `cortado serve` on this machine if not given.
        sample_rate: of samples, in Hz; files and microphones know their own.
        encoding: of bytes, and what the floats of an iterable are sent in.
        silence_ms: of silence that end an utterance, 300 to 5000; the server's rules if not given.
        phrases: that are likely to be said, such as names; at most 100.
        alternatives: the most texts that each of the `utterances` has, and others that a word in
            doubt has there; up to 10.
        key: the server's API key; that of the environment (`CORTADO_API_KEY`) if not given.

    Raises: TypeError if it is no audio.
    """
    if not isinstance(audio, str | PathLike | Microphone | Bytes | Iterable | AsyncIterable):
        raise TypeError(f"expected a file, a microphone or samples, got {type(audio).__name__}")
    connecting = partial(
        connect,
        SERVER if url is None else url,
        silence_ms=silence_ms,
        phrases=phrases,
        alternatives=alternatives,
        key=key,
    )
    return Speech(lambda: _messages(audio, sample_rate, encoding, connecting))


async def _messages(
    audio: Source,
    sample_rate: int,
    encoding: Encoding,
    connecting: Callable[..., AbstractAsyncContextManager[Stream]],
) -> AsyncIterator[Chars | Endpoint]:
    pieces: Pieces
    if isinstance(audio, Microphone):
        pieces, sample_rate, encoding = audio, audio.sample_rate, FLOATS
    elif isinstance(audio, str | PathLike):
        pieces, sample_rate, encoding = decoded(Path(audio)), DEFAULT_SAMPLE_RATE, FLOATS
    elif isinstance(audio, np.ndarray):
        pieces, encoding = [audio], FLOATS
    else:
        pieces = [audio] if isinstance(audio, Bytes) else audio
    async with connecting(sample_rate=sample_rate, encoding=encoding) as connected:
        sending = asyncio.create_task(send_all(connected, pieces))
        try:
            async for message in connected.messages():
                yield message
            if connected.last is not None:
                yield connected.last
            await sending  # what is wrong with the audio comes behind the text of what was good
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            if isinstance(audio, Microphone):
                audio.close()


async def send_all(connected: Stream, pieces: Pieces) -> None:
    """Send audio as it comes, and its end, also where it breaks off.

    Raises: Exception, whatever the audio's iterator raises.
    """
    try:
        async for piece in pieces if isinstance(pieces, AsyncIterable) else _awaited(pieces):
            await connected.send(piece)
    finally:
        with suppress(StreamError):  # of a stream that has failed; who receives is told why
            await connected.end()


async def _awaited(pieces: Iterable[Audio]) -> AsyncIterator[Audio]:
    """Yield the pieces of an iterator that may block, as a microphone's does.

    It is read in a thread that nobody waits for: where it blocks for ever, the stream still ends.
    """
    loop = asyncio.get_running_loop()
    found: asyncio.Queue[tuple[Audio] | BaseException | None] = asyncio.Queue()
    wanted, ended = threading.Semaphore(0), threading.Event()

    def put(item: tuple[Audio] | BaseException | None) -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(found.put_nowait, item)

    def read() -> None:
        try:
            for piece in pieces:
                put((piece,))
                wanted.acquire()
                if ended.is_set():
                    return
            put(None)
        except BaseException as error:
            put(error)

    threading.Thread(target=read, daemon=True).start()
    try:
        while (item := await found.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item[0]
            wanted.release()
    finally:
        ended.set()
        wanted.release()
