"""The microphone of this machine, as blocks of sound to be iterated over.

    for word in cortado.stream(cortado.Microphone()):
        print(word.text)

sounddevice and PortAudio are needed for this alone, so they are imported only here and only then.
"""

import math
import queue
from collections.abc import Iterator
from contextlib import suppress
from threading import Lock
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

PREFERRED_RATE = 16_000  # Hz, the model's own
BLOCK_SECONDS = 0.04  # one step of the model
WAITING_BLOCKS = 2250  # 90 s of sound: a connection that is lost in silence is noticed before
SILENCE = -96.0  # dB of full scale: less than one step of 16 bits

Block = NDArray[np.float32]  # (N,) samples in [-1, 1)


class MicrophoneError(ValueError):
    """A microphone that cannot be used, in words for the one who wants to speak."""


class Input(NamedTuple):
    """An input device of the system."""

    number: int
    name: str
    is_default: bool


def inputs() -> list[Input]:
    """Return the input devices of this machine.

    Raises: MicrophoneError if sounddevice or PortAudio is missing.
    """
    sound = _sounddevice()
    default = sound.default.device[0]
    return [
        Input(number, device["name"], number == default)
        for number, device in enumerate(sound.query_devices())
        if device["max_input_channels"] > 0
    ]


class Microphone:
    """A microphone: iterate over it, once, for blocks of (N,) samples as they are spoken.

    It begins to hear when the iteration does, and ends with `stop()`, with its device, or where
    more than 90 seconds wait because nobody takes them.

    Args:
        device: its number or a part of its name; None for the system's default.

    Raises: MicrophoneError if there is none, or it cannot be opened or does not start.
    """

    def __init__(self, device: int | str | None = None) -> None:
        self._sound = sound = _sounddevice()
        self._device = device
        self.sample_rate = _rate(sound, device)  # Hz
        self.seconds = 0.0  # of sound that was heard
        self.level = SILENCE  # of the latest block, in dB of full scale
        self.overrun = False  # it has ended because nobody took its blocks
        self._blocks: queue.SimpleQueue[Block | None] = queue.SimpleQueue()
        self._ended = False
        self._closing = Lock()  # the thread that iterates closes as well, and PortAudio takes one
        try:
            self._input = sound.RawInputStream(
                samplerate=self.sample_rate,
                blocksize=round(self.sample_rate * BLOCK_SECONDS),
                device=device,
                channels=1,
                dtype="int16",
                callback=self._heard,
                finished_callback=lambda: self._put(None),
            )
        except sound.PortAudioError as error:
            raise _cannot_open(device, error) from error

    def __iter__(self) -> Iterator[Block]:
        """Yield blocks until `stop()` or until the device ends."""
        try:
            self._input.start()
        except self._sound.PortAudioError as error:
            raise _cannot_open(self._device, error) from error
        try:
            while (block := self._blocks.get()) is not None:
                yield block
        finally:
            self.close()

    def stop(self) -> None:
        """Hear nothing more; what was heard is still given out."""
        self._put(None)

    def close(self) -> None:
        """Give the device back."""
        self.stop()
        with self._closing:
            if not self._input.closed:
                self._input.close()

    def _heard(self, data: Any, frames: int, time: Any, status: Any) -> None:
        """Take a block from the audio's own thread."""
        block = np.frombuffer(bytes(data), "<i2").astype(np.float32) / np.float32(32768)
        self.seconds += len(block) / self.sample_rate
        self.level = level(block)
        self._put(block)

    def _put(self, block: Block | None) -> None:
        if self._ended:
            return
        if block is not None and self._blocks.qsize() >= WAITING_BLOCKS:
            self.overrun = True
            block = None
        self._ended = block is None
        self._blocks.put(block)


def level(block: Block) -> float:
    """Return the root mean square of (N,) samples in dB of full scale."""
    power = float(np.mean(np.square(block))) if len(block) else 0.0
    return max(SILENCE, 10 * math.log10(power)) if power > 0 else SILENCE


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
    if not inputs():
        return none_here()
    which = "the microphone" if device is None else f"the microphone {device!r}"
    advice = "cortado mic --list-devices lists them, another program may hold it"
    return MicrophoneError(f"{which} cannot be opened: {advice}: {error}")


def none_here() -> MicrophoneError:
    """Return what is wrong where there is no microphone at all."""
    return MicrophoneError("no microphone here: connect one, or transcribe a recording")


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
