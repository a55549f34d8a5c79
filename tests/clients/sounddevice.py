"""A sounddevice whose one microphone hears the wav file in the environment's WAV, and then ends."""

import os
import threading
import wave
from collections.abc import Callable
from typing import Any


class PortAudioError(Exception):
    """What the real one raises; this one does not."""


class default:
    """What the system prefers."""

    device = (0, 0)


def query_devices(device: object = None, kind: str = "") -> Any:
    """Return what is known of a device, or of all."""
    known = {"name": "the recording", "max_input_channels": 1, "default_samplerate": 16_000}
    return known if kind else [known]


def check_input_settings(**settings: object) -> None:
    """Take all settings."""


class RawInputStream:
    """The wav file, in blocks from a thread of its own."""

    closed = False

    def __init__(
        self, callback: Callable[..., None], finished_callback: Callable[[], None], **settings: Any
    ) -> None:
        self._callback, self._finished = callback, finished_callback
        self._size = settings["blocksize"]
        self._file = os.environ.get("WAV", "")  # now: the thread may outlive the test that set it

    def start(self) -> None:
        """Begin to hear."""
        threading.Thread(target=self._hear, daemon=True).start()

    def close(self) -> None:
        """Give the device back."""
        self.closed = True

    def _hear(self) -> None:
        with wave.open(self._file) as sound:
            while data := sound.readframes(self._size):
                self._callback(data, len(data) // 2, None, None)
        self._finished()
