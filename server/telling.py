"""What steps gave, and how a stream is told of it.

The engine's thread hands over plain arrays of a whole batch; characters are made of them on the
event loop, while the thread is in the next step already.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cortado.model.streaming.listener import Suspended
from cortado.model.streaming.snapshot import Snapshot
from cortado.model.streaming.stream import Samples, told
from cortado.model.streaming.update import Update
from cortado.model.vocabulary import Vocabulary

if TYPE_CHECKING:
    from cortado.server.live_stream import EngineStream


class Written(NamedTuple):
    """What a batch of steps gave those of its streams that are to be told."""

    streams: list["EngineStream"]  # R of them
    symbols: NDArray[np.int32]  # (R, n) as `Table.step` gives them
    steps: NDArray[np.int64]  # (R,) done
    positions: NDArray[np.float64]  # (R,) seconds
    ended: NDArray[np.bool_]  # (R,) utterances
    finished: NDArray[np.bool_]  # (R,) streams

    def updates(
        self, vocabulary: Vocabulary, delay_steps: int
    ) -> Iterator[tuple["EngineStream", Update]]:
        """Yield each stream with its update."""
        columns = (column.tolist() for column in self[1:])  # plain numbers are quicker to handle
        for stream, symbols, steps, position, ended, finished in zip(
            self.streams, *columns, strict=True
        ):
            written = told(vocabulary, symbols, steps - 1, delay_steps)
            characters, endpoint = stream.utterances.hear(written, ended)
            yield stream, Update(characters, position, finished, endpoint=endpoint)


class Leaving(NamedTuple):
    """A stream that was suspended, after its last step."""

    stream: "EngineStream"
    identity: tuple[str, str]  # backend, and digest in hexadecimal
    counts: list[int | None]
    samples: Samples  # (N,) that wait
    listener: Suspended

    def update(self) -> Update:
        """Return the update that tells the stream itself; all others were told."""
        utterances = self.stream.utterances.suspend()
        kept = Snapshot(*self.identity, self.counts, self.samples, self.listener, utterances)
        return Update([], kept.position, True, snapshot=kept)
