"""Silero's voice activity detector for many streams: the probability of speech at each step.

Its weights are those of the package silero-vad, run by onnxruntime: both are the extra `vad`, and
neither is imported unless used. A stream's probabilities depend on its audio alone: one thread runs
rows in tiles of one size, so neighbours have no influence.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cortado.model.arrays import Rows, Samples
from cortado.model.features.framing import SAMPLE_RATE, SAMPLES_PER_STEP
from cortado.model.streaming.snapshot import digest

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

SPEECH = 0.35  # probability from which a window counts as speech, Silero's for an end of speech
TILE = 4  # rows that are run at once, always; twice as many would be a tenth quicker, if full

WEIGHTS = Path("data/silero_vad_16k_op15.onnx")  # in the package
WIDTH = 128  # of its LSTM
WINDOW = 512  # samples in one window
CONTEXT = 64  # samples before a window that are its context
REST = WINDOW - SAMPLES_PER_STEP % WINDOW  # most samples that wait for the next step
HISTORY = CONTEXT + REST

_SAMPLES, _RATE = np.arange(CONTEXT + WINDOW), np.array(SAMPLE_RATE, np.int64)


class Vad:
    """The detector's weights, for any number of steppers."""

    name = "silero"

    def __init__(self, session: "InferenceSession", digest: bytes) -> None:
        """Take the weights and their digest, for snapshots."""
        self.session, self.digest = session, digest

    def stepper(self, streams: int) -> "VadStepper":
        """Return new states of `streams` streams."""
        return VadStepper(self, streams)


class VadStepper:
    """The detector's states of a number of streams, one a row, stepped by one thread."""

    def __init__(self, vad: Vad, streams: int) -> None:
        self._vad = vad
        self._state = np.zeros((2, streams, WIDTH), np.float32)
        self._samples = np.zeros((streams, HISTORY), np.float32)  # the last samples
        self._rest = np.zeros(streams, np.int64)  # how many of them were in no window yet

    def reset(self, rows: Rows) -> None:
        """Reset the streams in (R,) rows to the state before any audio."""
        self._state[:, rows], self._samples[rows], self._rest[rows] = 0, 0, 0

    def step(self, samples: Samples, rows: Rows) -> NDArray[np.float32]:
        """Return (R,) the probabilities of speech in the windows that end in this step.

        A step of 640 samples completes one window of 512, every fourth step two; the larger
        probability counts.

        Args:
            samples: (R, SAMPLES_PER_STEP) float32 in [-1, 1], the next of each.
            rows: (R,) which streams, each once.
        """
        audio = np.concatenate([self._samples[rows], samples], axis=1)
        rest = self._rest[rows] + SAMPLES_PER_STEP
        found = np.zeros(len(rows), np.float32)
        while len(ready := np.flatnonzero(rest >= WINDOW)):
            begin = audio.shape[1] - rest[ready] - CONTEXT
            windows = audio[ready[:, None], begin[:, None] + _SAMPLES]
            found[ready] = np.maximum(found[ready], self._run(windows, rows[ready]))
            rest[ready] -= WINDOW
        self._samples[rows], self._rest[rows] = audio[:, -HISTORY:], rest
        return found

    def _run(self, windows: Samples, rows: Rows) -> NDArray[np.float32]:
        """Return (R,) the probabilities of windows (R, CONTEXT + WINDOW)."""
        padding = -len(rows) % TILE
        windows = np.pad(windows, ((0, padding), (0, 0)))
        state = np.pad(self._state[:, rows], ((0, 0), (0, padding), (0, 0)))
        found = np.empty(len(windows), np.float32)
        for first in range(0, len(windows), TILE):
            tile = slice(first, first + TILE)
            inputs = {"input": windows[tile], "state": np.ascontiguousarray(state[:, tile])}
            output, state[:, tile] = self._vad.session.run(None, inputs | {"sr": _RATE})
            found[tile] = output[:, 0]
        self._state[:, rows] = state[:, : len(rows)]
        return found[: len(rows)]

    def snapshot(self, row: int) -> bytes:
        """Return a stream's state."""
        parts = self._state[:, row], self._samples[row], self._rest[row]
        return b"".join(part.tobytes() for part in parts)

    def restore(self, row: int, state: bytes) -> None:
        """Give a row the state that `snapshot` of the same weights returned."""
        numbers = np.frombuffer(state[:-8], np.float32)
        self._state[:, row] = numbers[: 2 * WIDTH].reshape(2, WIDTH)
        self._samples[row] = numbers[2 * WIDTH :]
        self._rest[row] = np.frombuffer(state[-8:], np.int64)[0]


def load_vad() -> Vad:
    """Return the detector of the package silero-vad.

    Raises:
        ValueError: it, or onnxruntime, is not installed.
    """
    package = find_spec("silero_vad")  # to import it would bring torch
    try:
        import onnxruntime
    except ImportError:
        package = None
    if package is None or package.origin is None:
        raise ValueError(
            "expected onnxruntime and silero-vad for the voice activity detector, got none: "
            "they are of the extra cortado-asr[vad]; in a clone: make install EXTRAS=vad"
        )
    weights = (Path(package.origin).parent / WEIGHTS).read_bytes()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(weights, options, providers=["CPUExecutionProvider"])
    return Vad(session, digest([Vad.name.encode(), weights]))
