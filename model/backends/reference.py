"""The reference backend: the recogniser as it is trained, stepped by PyTorch.

A step takes 640 samples (40 ms) of each stream, computes one encoder frame and advances the search
over it. The state is a value with the stream on dim 0; streams do not influence each other.
"""

from functools import cached_property, partial, reduce
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cortado.model.arrays import Rows, Samples
from cortado.model.backends.heads import blanks, head, logits
from cortado.model.config import MAX_SYMBOLS_PER_STEP
from cortado.model.decoder.ctc import CtcState
from cortado.model.decoder.decoder import AttentionDecoder
from cortado.model.emission import Emissions
from cortado.model.features.framing import PAUSE_FRAMES, SAMPLES_PER_STEP
from cortado.model.features.speaker import check_streams
from cortado.model.layer import Serial, changed, merged, put, select, tensors
from cortado.model.recognizer import Recognizer
from cortado.model.search.beam_decoder import BeamSearch, SearchState
from cortado.model.search.commit import pending
from cortado.model.search.grapheme_to_phoneme import GraphemeToPhoneme
from cortado.model.search.greedy import GreedySearch
from cortado.model.search.phrases import Expected
from cortado.model.search.settings import GREEDY, Beam, flush_steps, search_identity, search_name
from cortado.model.streaming.interface import BATCH
from cortado.model.streaming.snapshot import digest

TILE = 8  # rows in every step: with other numbers, libraries sum in another order

State = tuple[Any, ...]  # of features, encoder and search, each of S streams


class ReferenceRecognizer:
    """A streaming recogniser in PyTorch: frozen weights, states in and out."""

    def __init__(self, recognizer: Recognizer, beam: Beam = GREEDY) -> None:
        """Take a recogniser, which is put in evaluation mode and learns no more.

        Args:
            recognizer: the model.
            beam: settings of the search; the CTC head alone is always decoded greedily.

        Raises: ValueError where its decoder needs whole utterances, or its features whole speakers.
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
        self.search = search_layer(self.recognizer, self.beam)
        self.layers = Serial(recognizer.features, recognizer.encoder, self.search)
        self.flush_steps = flush_steps(self.beam)
        self.batch = BATCH
        self.g2p = GraphemeToPhoneme(self.beam.words)
        self.name = search_name("reference", self.beam)
        self.head = head(recognizer)

    @cached_property
    def digest(self) -> bytes:
        """A digest of the backend and the weights."""
        weights = self.recognizer.state_dict().values()
        parts = (weight.detach().cpu().numpy().tobytes() for weight in weights)
        return digest([search_identity(self.name, self.beam), *parts])

    def initial_state(self, streams: int) -> State:
        """Return the state of streams without audio yet."""
        return self.layers.initial_state(streams)

    @torch.inference_mode()
    def step(self, samples: Tensor, state: State) -> tuple[Tensor, State]:
        """Return the next step's emissions (S, n, 3): symbols, -1 for none, lateness, confidence.

        Args:
            samples: (S, SAMPLES_PER_STEP) float32 in [-1, 1], the next of each stream.
            state: of the same streams.

        Raises: ValueError for samples of another shape.
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
        """Return the emissions of a whole tile of streams, and their new state."""
        emitted, state = self.layers.step(samples, state)
        return emitted[:, 0], state

    def stepper(self, streams: int, threads: int | None = None) -> "ReferenceStepper":
        """Return new states of `streams` streams.

        PyTorch steps them with `threads` threads; None leaves its setting alone, 0 means one.
        """
        return ReferenceStepper(self, streams, threads)


def search_layer(recognizer: Recognizer, beam: Beam) -> GreedySearch | BeamSearch:
    """Return the layer that decodes a recogniser's encoder frames."""
    decoder = recognizer.decoder
    if beam.width == 1 or not isinstance(decoder, AttentionDecoder):
        return GreedySearch(decoder)
    heads = partial(logits, head=head(recognizer, phones=True))
    phones = recognizer.config.phones
    return BeamSearch(decoder, heads, beam, MAX_SYMBOLS_PER_STEP, phones)


def _joined(first: Tensor, second: Tensor) -> Tensor:
    return torch.cat([first, second])


class ReferenceStepper:
    """The states of streams, one a row: a `Stepper`, which says what its methods do."""

    def __init__(self, recognizer: ReferenceRecognizer, streams: int, threads: int | None) -> None:
        self._recognizer = recognizer
        self._state = recognizer.initial_state(streams)
        self._torch_threads = None if threads is None else max(threads, 1)
        self.threads = self._torch_threads or 1
        self.streams = streams
        self._blank = recognizer.vocabulary.blank

    @property
    def bytes_per_stream(self) -> int:
        return sum(x.numel() * x.element_size() for x in tensors(self._fresh(1)))

    def _fresh(self, streams: int) -> State:
        return self._recognizer.initial_state(streams)

    def _index(self, rows: Rows) -> Tensor:
        return torch.from_numpy(rows)

    def _put(self, rows: Tensor, part: State) -> None:
        self._state = put(self._state, rows, part)

    def reset(self, rows: Rows) -> None:
        self._put(self._index(rows), self._fresh(len(rows)))

    def expect(self, row: int, phrases: Expected) -> None:
        index = self._index(np.array([row]))
        *layers, found = select(self._state, index)
        assert isinstance(found, SearchState)  # a pool checks that there is a search
        self._put(index, (*layers, found.expecting(phrases)))

    def step(self, samples: Samples, rows: Rows) -> Emissions:
        if self._torch_threads not in (None, torch.get_num_threads()):
            torch.set_num_threads(self.threads)
        index = self._index(rows)
        if not len(rows):
            return Emissions.nothing(0, MAX_SYMBOLS_PER_STEP)
        emitted, part = self._recognizer.step(torch.from_numpy(samples), select(self._state, index))
        self._put(index, part)
        return as_emissions(emitted)

    def blanks(self, rows: Rows) -> NDArray[np.bool_]:
        search, index = self._state[-1], self._index(rows)
        if isinstance(search, CtcState):
            return (search.symbol[index] == self._blank).numpy()
        return blanks(search.values[index, -1].numpy(), self._recognizer.head)

    def pending(self, rows: Rows) -> NDArray[np.int32]:
        search = self._state[-1]
        if not isinstance(search, SearchState):
            return np.full(len(rows), -1, np.int32)
        return pending(rows, search.own_hypotheses())

    def spoken(self, rows: Rows) -> NDArray[np.float32]:
        found = select(self._state, self._index(rows))[-1]
        assert isinstance(found, SearchState)  # asked for where there is a search
        return found.own_hypotheses().spoken

    def pauses(self, rows: Rows) -> NDArray[np.bool_]:
        features, *_ = self._state
        return np.asarray(features[-1].memory[self._index(rows), 1].cpu().numpy() >= PAUSE_FRAMES)

    def restart(self, rows: Rows) -> Emissions:
        index = self._index(rows)
        features, encoder, search = select(self._state, index)
        rest, search = self._recognizer.search.restarted(search)
        fresh = self._recognizer.recognizer.encoder.initial_state(len(rows))
        pauses = self._index(np.flatnonzero(self.pauses(rows)))
        encoder = put(encoder, pauses, select(fresh, pauses))
        self._put(index, (features, encoder, search))
        return rest

    def snapshot(self, row: int) -> bytes:
        parts = tensors(select(self._state, self._index(np.array([row]))))
        return b"".join(x.cpu().numpy().tobytes() for x in parts)

    def fits(self, state: bytes) -> bool:
        return len(state) == self.bytes_per_stream

    def restore(self, row: int, state: bytes) -> None:
        data, start = bytearray(state), 0

        def read(tensor: Tensor) -> Tensor:
            nonlocal start
            first, start = start, start + tensor.numel() * tensor.element_size()
            if first == start:
                return tensor
            found = torch.frombuffer(data[first:start], dtype=tensor.dtype)
            return found.view(tensor.shape).to(tensor.device)

        self._put(self._index(np.array([row])), changed(self._fresh(1), read))


def as_emissions(emitted: Tensor) -> Emissions:
    """Return emissions (S, n, 3) as arrays."""
    return Emissions(*emitted.cpu().numpy().astype(np.int32).transpose(2, 0, 1))
