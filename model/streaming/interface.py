"""What a backend gives to streams: a recogniser, and steppers of its states."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cortado.model.emission import Emissions
from cortado.model.search.beam import Beam
from cortado.model.vocabulary import Vocabulary

Samples = NDArray[np.float32]
Rows = NDArray[np.int64]

BATCH = 64  # streams in a batch that says what a step of many costs, on a CPU


class Stepper(Protocol):
    """The model's states of S streams, one a row, stepped in place by one thread at a time."""

    streams: int
    threads: int

    @property
    def bytes_per_stream(self) -> int:
        """Memory of a stream's state."""
        ...

    def reset(self, rows: Rows) -> None:
        """Let the streams in (R,) rows have heard nothing."""
        ...

    def step(self, samples: Samples, rows: Rows) -> Emissions:
        """Return what streams emit next.

        Args:
            samples: (R, SAMPLES_PER_STEP) float32 in [-1, 1], the next of each.
            rows: (R,) which streams, each once; the states of all others stay.

        Raises:
            ValueError: samples of another shape.
        """
        ...

    def blanks(self, rows: Rows) -> NDArray[np.bool_]:
        """Return (R,) whether the CTC head hears no character at the streams' last step."""
        ...

    def renew(self, rows: Rows) -> Emissions:
        """Let the decoders of the streams in (R,) rows have written nothing.

        What was heard stays: no sound of the utterance that comes next is lost. Return what was
        not committed yet of the best hypothesis.
        """
        ...

    def snapshot(self, row: int) -> bytes:
        """Return a stream's state, bytes_per_stream long."""
        ...

    def restore(self, row: int, state: bytes) -> None:
        """Give a row the state that `snapshot` of the same model returned, here or elsewhere."""
        ...


class StreamingRecognizer(Protocol):
    """A recogniser that streams."""

    name: str  # of the backend, and of the search
    vocabulary: Vocabulary
    lookahead_ms: int
    delay_steps: int  # between the end of an encoder frame and the step that gives it
    flush_steps: int  # of silence after the end of the input until all is committed
    beam: Beam  # how streams are searched
    batch: int  # streams, for each thread, in about the least efficient one of the large batches

    @property
    def digest(self) -> bytes:
        """What stands for the backend and the weights, in a snapshot."""
        ...

    def stepper(self, streams: int, threads: int | None = None) -> Stepper:
        """Return the states of `streams` streams that have heard nothing, stepped by `threads`.

        None is one thread; 0 is as many as are worth it on this machine.
        """
        ...
