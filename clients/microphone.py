"""The microphone of this machine, streamed to a server; its characters, written as they come.

sounddevice and PortAudio are needed for this alone, so they are imported only here and only then.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from types import ModuleType
from typing import Any, NamedTuple, Protocol

from cortado.clients.stream import Stream, connect
from cortado.server.protocol.messages import Chars, Endpoint

Write = Callable[[str], None]

PREFERRED_RATE = 16_000  # Hz, the model's own
BLOCK_SECONDS = 0.04  # one step of the model
WAITING_BLOCKS = 250  # 10 s of sound that a slow server may leave waiting


class MicrophoneError(ValueError):
    """A microphone that cannot be used, in words for the one who wants to speak."""


class Input(NamedTuple):
    """An input device of the system."""

    number: int
    name: str
    channels: int
    is_default: bool


def inputs() -> list[Input]:
    """Return the input devices of this machine.

    Raises:
        MicrophoneError: sounddevice or PortAudio is missing.
    """
    sound = _sounddevice()
    default = sound.default.device[0]
    return [
        Input(number, device["name"], device["max_input_channels"], number == default)
        for number, device in enumerate(sound.query_devices())
        if device["max_input_channels"] > 0
    ]


async def speak(url: str, device: int | str | None, write: Write, tell: Write) -> None:
    """Stream a microphone to the server at `url` until Ctrl-C or until the device ends.

    Args:
        url: of the server's stream, ws:// or wss://.
        device: its number or a part of its name; None for the system's default.
        write: called with text as it is decided.
        tell: called with what the speaker should know, a line at a time.

    Raises:
        MicrophoneError: there is none, or it cannot be opened.
        StreamError: the server is not there or ends the stream with an error.
    """
    sound = _sounddevice()
    rate = _rate(sound, device)
    async with connect(url, sample_rate=rate, encoding="pcm_s16le") as stream:
        microphone = _Microphone(sound, device, rate)
        sending = asyncio.create_task(_send(stream, microphone))
        with microphone, _FirstInterrupt(microphone.stop):
            tell("Speak; Ctrl-C ends.")
            try:
                async for text in utterance_lines(stream):
                    write(text)
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
                write("\n")
        if microphone.overrun:
            tell("The server was too slow for live speech; the text ends where it fell behind.")


class Said(Protocol):
    """A stream, as far as its messages go."""

    def messages(self) -> AsyncIterator[Chars | Endpoint]:
        """Yield characters and the ends of utterances."""


async def utterance_lines(stream: Said) -> AsyncIterator[str]:
    """Yield the text of a stream as it comes, each utterance on a line of its own."""
    begins = False  # a line, which needs no space at its beginning
    async for message in stream.messages():
        if isinstance(message, Endpoint):
            begins = True
            continue
        yield "\n" + message.text.removeprefix(" ") if begins else message.text
        begins = False


async def _send(stream: Stream, microphone: "_Microphone") -> None:
    async for block in microphone.blocks():
        await stream.send(block)
    await stream.end()


class _Microphone:
    """Blocks of 16-bit sound from the audio thread, through a bounded queue."""

    def __init__(self, sound: ModuleType, device: int | str | None, rate: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(WAITING_BLOCKS + 1)
        self._ended = False
        self.overrun = False
        try:
            self._input = sound.RawInputStream(
                samplerate=rate,
                blocksize=round(rate * BLOCK_SECONDS),
                device=device,
                channels=1,
                dtype="int16",
                callback=self._heard,
                finished_callback=lambda: self._from_thread(None),
            )
        except sound.PortAudioError as error:
            raise _cannot_open(device, error) from error

    def __enter__(self) -> "_Microphone":
        self._input.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._input.close()

    def stop(self) -> None:
        """Take no more sound; what was taken is still given out."""
        self._put(None)

    async def blocks(self) -> AsyncIterator[bytes]:
        """Yield blocks until stop() or until the device ends."""
        while (block := await self._queue.get()) is not None:
            yield block

    def _heard(self, data: Any, frames: int, time: Any, status: Any) -> None:
        self._from_thread(bytes(data))

    def _from_thread(self, block: bytes | None) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody listens any more
            self._loop.call_soon_threadsafe(self._put, block)

    def _put(self, block: bytes | None) -> None:
        if self._ended:
            return
        if block is not None and self._queue.qsize() >= WAITING_BLOCKS:
            self.overrun = True
            block = None
        self._ended = block is None
        self._queue.put_nowait(block)


class _FirstInterrupt:
    """A context in which the first Ctrl-C calls `stop`; the second interrupts as ever."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = stop

    def __enter__(self) -> None:
        with suppress(NotImplementedError):  # Windows: Ctrl-C interrupts at once
            self._loop.add_signal_handler(signal.SIGINT, self._first)

    def __exit__(self, *exception: object) -> None:
        self._forget()

    def _first(self) -> None:
        self._forget()
        self._stop()

    def _forget(self) -> None:
        with suppress(NotImplementedError):
            self._loop.remove_signal_handler(signal.SIGINT)


def _rate(sound: ModuleType, device: int | str | None) -> int:
    """Return the model's rate where the device can give it, else the device's own, in Hz."""
    try:
        info = sound.query_devices(device, "input")
        with suppress(sound.PortAudioError):
            sound.check_input_settings(
                device=device, channels=1, dtype="int16", samplerate=PREFERRED_RATE
            )
            return PREFERRED_RATE
        return int(info["default_samplerate"])
    except (sound.PortAudioError, ValueError) as error:
        raise _cannot_open(device, error) from error


def _cannot_open(device: int | str | None, error: Exception) -> MicrophoneError:
    which = "no microphone here" if device is None else f"no microphone {device!r}"
    return MicrophoneError(f"{which} that can be opened: {error} (cortado mic --list-devices)")


def _sounddevice() -> ModuleType:
    try:
        import sounddevice
    except ModuleNotFoundError as error:
        raise MicrophoneError(
            "the microphone needs sounddevice, of the extra cortado-asr[mic]; "
            "in a clone: make install EXTRAS=mic"
        ) from error
    except OSError as error:  # sounddevice is there, the library under it is not
        raise MicrophoneError(
            f"the microphone needs PortAudio (on Debian: apt install libportaudio2): {error}"
        ) from error
    module: ModuleType = sounddevice
    return module
