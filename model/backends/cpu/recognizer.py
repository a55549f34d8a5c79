"""The fast CPU backend: the whole step of many streams in compiled code, state in place.

docs/engine.md says how it works and where its results are the same to the bit.
"""

import dataclasses
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cortado.model.arrays import Array, Rows, Samples, buffers, has_dimension
from cortado.model.backends.cpu import weights
from cortado.model.backends.cpu.kernel import kernel
from cortado.model.backends.cpu.layout import (
    TILE,
    NewStates,
    Scratch,
    Shares,
    State,
    empty_state,
    frames_of,
    new_states,
    scratch,
)
from cortado.model.checkpoint_reader import Parameters
from cortado.model.compiled.integers import has_integer_products
from cortado.model.compiled.product import WEIGHT_TYPES, available, input_type
from cortado.model.compiled.tiles import ROWS
from cortado.model.compiled.vectors import COLUMNS
from cortado.model.config import MAX_SYMBOLS_PER_STEP, SEARCHED_BY, RecognizerConfig
from cortado.model.config_reader import flat
from cortado.model.cores import usable_cores
from cortado.model.emission import Emissions
from cortado.model.features.framing import PAUSE_FRAMES, PRIOR_FRAMES, SAMPLES_PER_STEP, delay_steps
from cortado.model.search.commit import pending, uncommitted
from cortado.model.search.grapheme_to_phoneme import GraphemeToPhoneme
from cortado.model.search.hypotheses import (
    NOTHING,
    Candidates,
    Hypotheses,
    candidates,
    hypotheses,
    restart,
)
from cortado.model.search.phrases import Expected
from cortado.model.search.settings import (
    GREEDY,
    Beam,
    flush_steps,
    max_committed,
    search_identity,
    search_name,
)
from cortado.model.streaming.interface import BATCH
from cortado.model.streaming.snapshot import digest

FEW = 16  # streams a thread that are worth waking another one

CONFIGURABLE = SEARCHED_BY | {  # settings of a model that this backend supports with any value
    "vocabulary.characters",
    "vocabulary.phones",
    "encoder.width",
    "encoder.layers",
    "decoder.width",
    "decoder.embedding",
    "decoder.attention.width",
    "decoder.attention.chunk",
    "decoder.attention.bias",
    "phones",
}
INTEGERS = "int8"


def available_products() -> tuple[str, ...]:
    """Return the names of the matrix products that this CPU supports, the fastest first."""
    first, *others = available()
    if not has_integer_products():
        return (first, *others)
    return (first, INTEGERS, *others) if first == "amx" else (INTEGERS, first, *others)


def chosen_products(name: str | None) -> str:
    """Return the name of matrix products, given it, or None for the fastest.

    Raises: ValueError where this CPU does not support them.
    """
    here = available_products()
    if name is not None and name not in here:
        expected = f"expected products that this CPU supports ({' or '.join(here)})"
        raise ValueError(f"{expected}, got {name!r}")
    return name or here[0]


def unsupported(recognizer: Parameters) -> str | None:
    """Return why this backend does not support a recogniser, or None if it does."""
    config = recognizer.config
    chosen = flat(dataclasses.asdict(config))
    usual = flat(dataclasses.asdict(RecognizerConfig()))
    for name, value in chosen.items():
        if name not in CONFIGURABLE and usual.get(name) != value:
            return f"{name} is {value!r}"
    for name in ("encoder.width", "decoder.width", "decoder.attention.width"):
        if chosen[name] % COLUMNS:
            return f"{name} is {chosen[name]}, no multiple of {COLUMNS}"
    return None


class FastRecognizer:
    """A streaming recogniser whose step is compiled for this CPU."""

    def __init__(
        self, recognizer: Parameters, *, products: str | None = None, beam: Beam = GREEDY
    ) -> None:
        """Take a recogniser's weights.

        Args:
            recognizer: one for which `unsupported` returns None.
            products: one of `available_products()`, the fastest if None.
            beam: settings of the search.

        Raises:
            ValueError: an unsupported recogniser, tensors of unexpected shapes, or products that
                this CPU does not support.
        """
        reason = unsupported(recognizer)
        if reason is not None:
            raise ValueError(f"expected a model that the fast backend supports, but {reason}")
        products = chosen_products(products)
        self.packed_type = WEIGHT_TYPES[available()[0] if products == INTEGERS else products]
        self.narrow = input_type(self.packed_type)
        self.name = search_name(f"fast-{products}", beam)
        self.vocabulary = recognizer.config.vocabulary
        self.lookahead_ms = recognizer.lookahead_ms
        self.delay_steps = delay_steps(self.lookahead_ms)
        self.beam = beam
        self.flush_steps = flush_steps(beam)
        self.batch = BATCH
        self.g2p = GraphemeToPhoneme(beam.words)
        self.phones = recognizer.config.phones
        self.sizes = weights.sizes(recognizer)
        self.weights = weights.pack_weights(recognizer, self.packed_type, products == INTEGERS)
        identity = search_identity(self.name, beam)
        self.digest = digest([identity, *buffers(self.weights)])

    def stepper(self, streams: int, threads: int | None = None) -> "FastStepper":
        """Return new states of `streams` streams, stepped by `threads` threads.

        None is one thread; 0 is one for each core.
        """
        return FastStepper(self, streams, 1 if threads is None else threads or usable_cores())


# which arrays of a state, and of a search after them, have a place for each hypothesis
BY_HYPOTHESIS = has_dimension(State, "K") + has_dimension(Hypotheses, "K")


def _packed(there: Array) -> bytes:
    """Return the bytes that begin a state: which of K hypotheses are there."""
    return np.packbits(there).tobytes()


def _unpacked(state: bytes, width: int) -> tuple[Array, int]:
    """Return (K,) which hypotheses are there by a state's first bytes, and their number."""
    size = -(-width // 8)
    bits = np.frombuffer(state[:size].ljust(size, b"\0"), np.uint8)
    return np.unpackbits(bits, count=width).astype(np.bool_), size


class _ThreadMemory(NamedTuple):
    """One thread's working memory for a tile."""

    scratch: Scratch
    candidates: Candidates
    new_states: NewStates


class FastStepper:
    """The states of streams in preallocated arrays, stepped in place: a `Stepper`."""

    def __init__(self, recognizer: FastRecognizer, streams: int, threads: int) -> None:
        self._recognizer = recognizer
        beam, cap = recognizer.beam, MAX_SYMBOLS_PER_STEP
        self._state = empty_state(streams, recognizer.sizes, recognizer.narrow, beam.width)
        outputs = len(recognizer.vocabulary), recognizer.phones
        self._hypotheses = hypotheses(streams, beam, cap, *outputs)
        sizes = (recognizer.sizes, recognizer.narrow)
        self._frames = frames_of(streams, recognizer.sizes)
        self._memories = [
            _ThreadMemory(
                scratch(*sizes),
                candidates(TILE // beam.width, beam, cap, *outputs),
                new_states(*sizes, cap),
            )
            for _ in range(threads)
        ]
        # starts no thread before it is needed
        self._others = ThreadPoolExecutor(max(threads - 1, 1), "step")
        self.streams, self.threads = streams, threads
        self._begin(slice(None))  # the rest is zero: pages stay unused until a stream comes

    @property
    def bytes_per_stream(self) -> int:
        every = np.ones(self._recognizer.beam.width, np.bool_)
        return len(_packed(every)) + sum(part.nbytes for part in self._parts(0, every))

    @property
    def _arrays(self) -> tuple[Array, ...]:
        """All arrays of the state, the stream on dim 0."""
        searched = self._recognizer.beam.width > 1
        return (*self._state, *self._hypotheses) if searched else tuple(self._state)

    def reset(self, rows: Rows) -> None:
        for array in self._arrays:
            array[rows] = 0
        self._begin(rows)
        restart(rows, self._hypotheses)

    def expect(self, row: int, phrases: Expected) -> None:
        self._hypotheses.trees[row], self._hypotheses.sounds[row] = phrases

    def _begin(self, rows: Rows | slice) -> None:
        self._state.mean[rows] = self._recognizer.weights.features.mean
        self._state.memory[rows] = PRIOR_FRAMES, 0, 0
        self._state.symbol[rows] = self._recognizer.weights.decoder.start

    def blanks(self, rows: Rows) -> NDArray[np.bool_]:
        return self._state.blank[rows, 0] != 0

    def pending(self, rows: Rows) -> NDArray[np.int32]:
        return pending(rows, self._hypotheses)

    def spoken(self, rows: Rows) -> NDArray[np.float32]:
        return self._hypotheses.spoken[rows]

    def pauses(self, rows: Rows) -> NDArray[np.bool_]:
        return np.asarray(self._state.memory[rows, 1] >= PAUSE_FRAMES)

    def restart(self, rows: Rows) -> Emissions:
        state, rest = self._state, uncommitted(rows, self._recognizer.beam, self._hypotheses)
        restart(rows, self._hypotheses)
        pauses = rows[self.pauses(rows)]
        convolutions = state.conv1, state.conv2, state.hidden, state.cell
        for array in (*convolutions, state.lstm_hidden, state.lstm_cell):
            array[pauses] = 0
        for array in (state.query, state.decoder_hidden, state.decoder_cell):
            array[rows] = 0
        state.symbol[rows] = self._recognizer.weights.decoder.start
        return rest

    @property
    def state(self) -> State:
        """The arrays themselves, the stream on dim 0."""
        return self._state

    def snapshot(self, row: int) -> bytes:
        there = self._hypotheses.scores[row] != NOTHING
        parts = (part.tobytes() for part in self._parts(row, there))
        return b"".join([_packed(there), *parts])

    def _parts(self, row: int, there: Array) -> Iterator[Array]:
        """Yield what a state consists of, without the hypotheses that are not there."""
        for array, is_theirs in zip(self._arrays, BY_HYPOTHESIS, strict=False):
            yield array[row][there] if is_theirs else array[row]

    def fits(self, state: bytes) -> bool:
        there, start = _unpacked(state, self._recognizer.beam.width)
        return len(state) == start + sum(part.nbytes for part in self._parts(0, there))

    def restore(self, row: int, state: bytes) -> None:
        there, start = _unpacked(state, self._recognizer.beam.width)
        self.reset(np.array([row]))
        self._hypotheses.scores[row, ~there] = self._hypotheses.chosen[row, ~there] = NOTHING
        for array, is_theirs in zip(self._arrays, BY_HYPOTHESIS, strict=False):
            place = (row, there) if is_theirs else row
            end = start + array[place].nbytes
            array[place] = np.frombuffer(state[start:end], array.dtype).reshape(array[place].shape)
            start = end

    def step(self, samples: Samples, rows: Rows) -> Emissions:
        samples, rows = self._checked(samples, rows)
        beam, cap = self._recognizer.beam, MAX_SYMBOLS_PER_STEP
        emissions = Emissions.nothing(len(rows), max_committed(beam, cap))
        run, threads = kernel(beam.width > 1), max(1, min(self.threads, len(rows) // FEW))
        size = min(TILE, max(1, -(-len(rows) // (threads * ROWS))) * ROWS)
        begun, encoded, groups = np.zeros((3, -(-len(rows) // size)), np.int64)
        shares = Shares(begun, encoded, groups, self._frames)

        def run_tiles(memory: _ThreadMemory) -> None:
            arguments = (*self._recognizer.weights, *memory, *emissions, cap, beam, size, shares)
            run(samples, rows, self._state, self._hypotheses, *arguments)

        others = [self._others.submit(run_tiles, memory) for memory in self._memories[1:threads]]
        run_tiles(self._memories[0])
        for one in others:
            if not one.cancel():  # it has started
                one.result()
        return emissions

    def _checked(self, samples: Samples, rows: Rows) -> tuple[Samples, Array]:
        expected = (len(rows), SAMPLES_PER_STEP)
        if samples.shape != expected or samples.dtype != np.float32:
            found = f"{samples.shape} {samples.dtype}"
            raise ValueError(f"expected float32 samples {expected}, got {found}")
        if len(rows) and not (rows.min() >= 0 and rows.max() < self.streams):
            raise ValueError(f"expected rows from 0 to {self.streams - 1}, got {rows}")
        return np.ascontiguousarray(samples), np.ascontiguousarray(rows, np.int64)
