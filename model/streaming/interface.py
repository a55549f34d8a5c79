"""The interface of a backend: a streaming recogniser, and steppers that hold states."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cortado.model.arrays import Rows, Samples
from cortado.model.emission import Emissions
from cortado.model.search.grapheme_to_phoneme import GraphemeToPhoneme
from cortado.model.search.phrases import Expected
from cortado.model.search.settings import Beam
from cortado.model.vocabulary import Vocabulary

BATCH = 64  # streams in a batch large enough to measure the cost of a step, on a CPU


class Stepper(Protocol):
    """The model's states of S streams, one a row; one thread at a time steps them in place."""

    threads: int

    @property
    def bytes_per_stream(self) -> int:
        """Size of a stream's state in bytes."""

    def reset(self, rows: Rows) -> None:
        """Reset the streams in (R,) rows to the state before any audio."""

    def expect(self, row: int, phrases: Expected) -> None:
        """Set the phrases that a stream expects (phrases.py), after `reset`."""

    def step(self, samples: Samples, rows: Rows) -> Emissions:
        """Step the streams in `rows`; return their emissions.

        Args:
            samples: (R, SAMPLES_PER_STEP) float32 in [-1, 1], the next of each.
            rows: (R,) which streams, each once; the states of all others stay.

        Raises:
            ValueError: samples of another shape.
        """

    def blanks(self, rows: Rows) -> NDArray[np.bool_]:
        """Return (R,) whether the CTC head gave the blank at the streams' last step."""

    def pending(self, rows: Rows) -> NDArray[np.int32]:
        """Return (R,) frames since the newest symbol that awaits its commit, -1 for none.

        The symbol is the best hypothesis'; a greedy scan never has one.
        """

    def spoken(self, rows: Rows) -> NDArray[np.float32]:
        """Return (R, HISTORY, P) what the phone head gave the streams' last frames.

        The scores are those of `pronunciation.relative`, the oldest frame first; for a search that
        weighs pronunciations.
        """

    def pauses(self, rows: Rows) -> NDArray[np.bool_]:
        """Return (R,) whether the newest frames are of a pause, by their level."""

    def restart(self, rows: Rows) -> Emissions:
        """Begin an utterance in the streams in (R,) rows; return their uncommitted symbols.

        The decoder begins anew. So does the encoder in a pause: elsewhere it has heard the
        beginning of the next word. The features go on. The symbols are those of the best
        hypothesis.
        """

    def snapshot(self, row: int) -> bytes:
        """Return a stream's state, as long as bytes_per_stream or shorter."""

    def fits(self, state: bytes) -> bool:
        """Return whether bytes are as long as such a state is."""

    def restore(self, row: int, state: bytes) -> None:
        """Set a row to the state that `snapshot` returned, in any process with the same model."""


class StreamingRecognizer(Protocol):
    """A streaming recogniser in one backend."""

    name: str  # of the backend, and of the search
    vocabulary: Vocabulary
    lookahead_ms: int
    delay_steps: int  # between the end of an encoder frame and the step that gives it
    flush_steps: int  # of silence after the end of the input until all is committed
    beam: Beam  # settings of the search
    batch: int  # streams a thread, in the smallest batch that counts as large
    g2p: GraphemeToPhoneme  # for words that the search's lexicon lacks

    @property
    def digest(self) -> bytes:
        """A digest of the backend and the weights, for snapshots."""

    def stepper(self, streams: int, threads: int | None = None) -> Stepper:
        """Return new states of `streams` streams, stepped by `threads` threads.

        None is one thread; 0 is as many as are worth it on this machine.
        """
