"""The reference: the recogniser as it is trained, stepped by PyTorch.

A step takes 640 samples (40 ms) of each stream, gives one encoder frame, and lets the search
advance over it. The state is a value; streams live on dim 0 and do not feel each other.
"""

from functools import cached_property, reduce
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cortado.model.backends.blank import blanks, head
from cortado.model.config import MAX_SYMBOLS_PER_STEP
from cortado.model.decoder.ctc import CtcState
from cortado.model.decoder.decoder import AttentionDecoder
from cortado.model.emission import Emissions
from cortado.model.features.framing import SAMPLES_PER_STEP
from cortado.model.features.speaker import check_streams
from cortado.model.layer import Serial, changed, merged, put, select, tensors
from cortado.model.recognizer import Recognizer
from cortado.model.search.beam import GREEDY, Beam, flush_steps, identity, searching
from cortado.model.search.beam_decoder import BeamSearch
from cortado.model.search.greedy import GreedySearch
from cortado.model.streaming.interface import BATCH, Rows, Samples
from cortado.model.streaming.snapshot import digest

TILE = 8  # rows that are stepped at once, always: libraries sum in another order for other numbers

State = tuple[Any, ...]  # of features, encoder and search, each of S streams


class ReferenceRecognizer:
    """A recogniser that streams: frozen weights, states in and out."""

    def __init__(self, recognizer: Recognizer, beam: Beam = GREEDY) -> None:
        """Take a recogniser, which is put in evaluation mode.

        Args:
            recognizer: what is heard with.
            beam: how streams are searched; the CTC head alone has its greedy path.

        Raises:
            ValueError: its decoder needs whole utterances, or its features whole speakers.
        """
        check_streams(recognizer.config)
        if not recognizer.decoder.online:
            name = type(recognizer.decoder.attention).__name__
            raise ValueError(f"expected a monotonic attention for streams, got {name}")
        self.recognizer = recognizer.eval().requires_grad_(False)
        self.vocabulary = recognizer.config.vocabulary
        self.lookahead_ms = recognizer.lookahead_ms
        self.delay_steps = recognizer.delay_steps
        self.beam = beam if isinstance(recognizer.decoder, AttentionDecoder) else GREEDY
        self.search = searched(self.recognizer, self.beam)
        self.layers = Serial(recognizer.features, recognizer.encoder, self.search)
        self.flush_steps = flush_steps(self.beam)
        self.batch = BATCH
        self.name = searching("reference", self.beam)
        self.head = head(recognizer)

    @cached_property
    def digest(self) -> bytes:
        """What stands for the backend and the weights."""
        weights = self.recognizer.state_dict().values()
        parts = (weight.detach().cpu().numpy().tobytes() for weight in weights)
        return digest([identity(self.name, self.beam), *parts])

    def initial_state(self, streams: int) -> State:
        """Return the state of streams that have heard nothing."""
        return self.layers.initial_state(streams)

    @torch.inference_mode()
    def step(self, samples: Tensor, state: State) -> tuple[Tensor, State]:
        """Return what streams emit at the next step: (S, n, 2) symbols, -1 for none, and lateness.

        Args:
            samples: (S, SAMPLES_PER_STEP) float32 in [-1, 1], the next of each stream.
            state: of the same streams.

        Raises:
            ValueError: samples of another shape.
        """
        streams = len(state[-1].symbol)
        if samples.shape != (streams, SAMPLES_PER_STEP):
            raise ValueError(
                f"expected samples ({streams}, {SAMPLES_PER_STEP}), got {tuple(samples.shape)}"
            )
        padding = -streams % TILE
        if padding:
            samples = torch.nn.functional.pad(samples, (0, 0, 0, padding))
            state = merged(state, self.initial_state(padding), _joined)
        tiles = []
        for first in range(0, len(samples), TILE):
            tile = slice(first, first + TILE)
            tiles.append(self.step_rows(samples[tile], changed(state, itemgetter(tile))))
        found = reduce(lambda one, more: merged(one, more, _joined), tiles)
        return changed(found, lambda x: x[:streams])

    def step_rows(self, samples: Tensor, state: State) -> tuple[Tensor, State]:
        """Return what streams, whose number has a say in the bits, emit, and their new state."""
        emitted, state = self.layers.step(samples, state)
        return emitted[:, 0], state

    def stepper(self, streams: int, threads: int | None = None) -> "ReferenceStepper":
        """Return the states of `streams` streams that have heard nothing.

        They are stepped by as many of torch's threads; None leaves torch alone, 0 is one.
        """
        return ReferenceStepper(self, streams, threads)


def searched(recognizer: Recognizer, beam: Beam) -> GreedySearch | BeamSearch:
    """Return what decodes a recogniser's frames."""
    decoder = recognizer.decoder
    if beam.width == 1 or not isinstance(decoder, AttentionDecoder):
        return GreedySearch(decoder)
    return BeamSearch(decoder, beam, MAX_SYMBOLS_PER_STEP)


def _joined(first: Tensor, second: Tensor) -> Tensor:
    return torch.cat([first, second])


class ReferenceStepper:
    """The states of streams, one a row: a `Stepper`."""

    def __init__(self, recognizer: ReferenceRecognizer, streams: int, threads: int | None) -> None:
        self._recognizer = recognizer
        self._state = recognizer.initial_state(streams)
        self._torch_threads = None if threads is None else max(threads, 1)
        self.threads = self._torch_threads or 1
        self.streams = streams
        self._blank = recognizer.vocabulary.blank

    @property
    def bytes_per_stream(self) -> int:
        """Memory of a stream's state."""
        return sum(x.numel() * x.element_size() for x in tensors(self._fresh(1)))

    def _fresh(self, streams: int) -> State:
        return self._recognizer.initial_state(streams)

    def _index(self, rows: Rows) -> Tensor:
        return torch.from_numpy(rows)

    def _put(self, rows: Tensor, part: State) -> None:
        self._state = put(self._state, rows, part)

    def reset(self, rows: Rows) -> None:
        """Let the streams in (R,) rows have heard nothing."""
        self._put(self._index(rows), self._fresh(len(rows)))

    def step(self, samples: Samples, rows: Rows) -> Emissions:
        """Return what streams emit next.

        Raises:
            ValueError: samples of another shape than (R, SAMPLES_PER_STEP).
        """
        if self._torch_threads not in (None, torch.get_num_threads()):
            torch.set_num_threads(self.threads)
        index = self._index(rows)
        if not len(rows):
            return Emissions.nothing(0, MAX_SYMBOLS_PER_STEP)
        emitted, part = self._recognizer.step(torch.from_numpy(samples), select(self._state, index))
        self._put(index, part)
        return as_emissions(emitted)

    def blanks(self, rows: Rows) -> NDArray[np.bool_]:
        """Return (R,) whether the CTC head hears no character at the streams' last step."""
        search, index = self._state[-1], self._index(rows)
        if isinstance(search, CtcState):
            heard: NDArray[np.bool_] = (search.symbol[index] == self._blank).numpy()
            return heard
        return blanks(search.values[index, -1].numpy(), self._recognizer.head)

    def renew(self, rows: Rows) -> Emissions:
        """Let the decoders of streams have written nothing; return what was not committed."""
        index = self._index(rows)
        heard = select(self._state, index)
        rest, fresh = self._recognizer.search.renewed(heard[-1])
        self._put(index, (*heard[:-1], fresh))
        return rest

    def snapshot(self, row: int) -> bytes:
        """Return a stream's state."""
        parts = tensors(select(self._state, self._index(np.array([row]))))
        return b"".join(x.cpu().numpy().tobytes() for x in parts)

    def restore(self, row: int, state: bytes) -> None:
        """Give a row the state that `snapshot` of the same model returned."""
        data, start = bytearray(state), 0

        def read(tensor: Tensor) -> Tensor:
            nonlocal start
            first, start = start, start + tensor.numel() * tensor.element_size()
            found = torch.frombuffer(data[first:start], dtype=tensor.dtype)
            return found.view(tensor.shape).to(tensor.device)

        self._put(self._index(np.array([row])), changed(self._fresh(1), read))


def as_emissions(emitted: Tensor) -> Emissions:
    """Return what was emitted (S, n, 2), as arrays."""
    return Emissions(*emitted.cpu().numpy().astype(np.int32).transpose(2, 0, 1))
