"""The reference on a GPU: tiles of streams, each stepped by one captured CUDA graph.

A step of the reference is some two hundred small kernels; launching each takes longer than running
it. Captured once as a CUDA graph, they are launched together, once for each tile.
"""

import copy
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cortado.model.arrays import Rows, Samples
from cortado.model.backends.heads import BLANK
from cortado.model.backends.reference import (
    ReferenceRecognizer,
    ReferenceStepper,
    State,
    as_emissions,
)
from cortado.model.config import MAX_SYMBOLS_PER_STEP
from cortado.model.decoder.ctc import CtcState
from cortado.model.emission import Emissions
from cortado.model.features.framing import SAMPLES_PER_STEP
from cortado.model.layer import select, tensors
from cortado.model.recognizer import Recognizer

TILE = 512  # rows in every step, so that any batch runs the same kernels
WARM_UP = 3  # steps before a capture, in which libraries choose and allocate


class DeviceRecognizer(ReferenceRecognizer):
    """A streaming recogniser whose weights and states are on a device."""

    def __init__(self, recognizer: Recognizer, device: str = "cuda", tile: int = TILE) -> None:
        """Take a recogniser; a copy of it goes to the device.

        Raises: ValueError where the device is not available, or the recogniser cannot stream.
        """
        if device == "cuda" and not torch.cuda.is_available():
            raise ValueError("expected a GPU that PyTorch can use for backend 'cuda', got none")
        super().__init__(copy.deepcopy(recognizer))
        self.recognizer.to(device)
        self.device, self.name, self.batch = torch.device(device), device, tile

    def stepper(self, streams: int, threads: int | None = None) -> "DeviceStepper":
        """Return new states of `streams` streams on the device."""
        return DeviceStepper(self, streams)


class DeviceStepper(ReferenceStepper):
    """The states of streams on a device, changed in place because a graph holds their addresses."""

    def __init__(self, recognizer: DeviceRecognizer, streams: int) -> None:
        super().__init__(recognizer, streams + 1, None)
        self._device, self._tile = recognizer.device, recognizer.batch
        self.streams = self._spare_row = streams  # the spare row fills up a tile
        every = torch.arange(streams + 1, device=self._device)
        self._state = select(self._state, every)  # equal zeros may have shared one tensor
        self._samples = torch.zeros(self._tile, SAMPLES_PER_STEP, device=self._device)
        self._rows = torch.full((self._tile,), self._spare_row, device=self._device)
        weight, bias = (torch.from_numpy(part).to(self._device) for part in recognizer.head)
        self._head = weight, bias
        self._advance = captured(self._step_tile, self._device)

    @torch.inference_mode()
    def _step_tile(self) -> Tensor:
        """Step the streams in `_rows` by `_samples`; return the tile's emissions."""
        emitted, part = self._recognizer.step_rows(self._samples, select(self._state, self._rows))
        self._put(self._rows, part)
        return emitted

    def _put(self, rows: Tensor, part: State) -> None:
        for whole, new in zip(tensors(self._state), tensors(part), strict=True):
            whole.index_copy_(0, rows, new)

    def _index(self, rows: Rows) -> Tensor:
        return torch.from_numpy(rows).to(self._device)

    @torch.inference_mode()
    def step(self, samples: Samples, rows: Rows) -> Emissions:
        if samples.shape != (len(rows), SAMPLES_PER_STEP):
            expected = f"({len(rows)}, {SAMPLES_PER_STEP})"
            raise ValueError(f"expected samples {expected}, got {samples.shape}")
        audio, index = torch.from_numpy(samples).to(self._device), self._index(rows)
        found = []
        for first in range(0, len(rows), self._tile):
            part = slice(first, first + self._tile)
            count = len(index[part])
            self._samples[:count] = audio[part]
            self._rows[:count] = index[part]
            self._rows[count:] = self._spare_row
            found.append(self._advance()[:count].clone())
        if not found:
            return Emissions.nothing(0, MAX_SYMBOLS_PER_STEP)
        return as_emissions(torch.cat(found))

    @torch.inference_mode()
    def blanks(self, rows: Rows) -> NDArray[np.bool_]:
        search, index = self._state[-1], self._index(rows)
        if isinstance(search, CtcState):
            found = search.symbol[index] == self._blank
        else:
            weight, bias = self._head
            found = (search.values[index, -1] @ weight + bias).softmax(1)[:, 0] >= BLANK
        return found.cpu().numpy()


def captured(step: Callable[[], Tensor], device: torch.device) -> Callable[[], Tensor]:
    """Return a function that does the same as `step`, on a GPU as one CUDA graph.

    The tensors that `step` reads and writes must keep their addresses; each call overwrites the
    result of the one before.
    """
    if device.type != "cuda":
        return step
    apart, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.backends.cudnn.flags(allow_tf32=False):  # TF32 has ten bits, by default
        apart.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(apart):
            for _ in range(WARM_UP):
                step()
        torch.cuda.current_stream().wait_stream(apart)
        # Other threads step the streams of the model that is replaced meanwhile.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            result = step()

    def replay() -> Tensor:
        graph.replay()
        return result

    return replay
