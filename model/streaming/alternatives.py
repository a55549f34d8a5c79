"""What else the words of S streams may have been, for those that ask for it, in constant memory."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cortado.model.arrays import Rows
from cortado.model.compiled.viterbi import IMPOSSIBLE
from cortado.model.emission import Emissions
from cortado.model.search import lexicon_search, pronunciation
from cortado.model.search.language_model import ROOT
from cortado.model.search.settings import Beam
from cortado.model.streaming.interface import Stepper
from cortado.model.vocabulary import Vocabulary

SHARPNESS = 0.7  # power of the words' probabilities: the search is surer than it is right
COVERED = 0.2  # of the words that are wrong, those whose right word it finds


class Substitute(NamedTuple):
    """A word in place of a committed one."""

    text: str
    share: float  # probability that it is right, should the committed one be wrong


class WordEnd(NamedTuple):
    """Where a word ends within a step or an update, and what else it may have been."""

    end: int  # counted from its beginning: symbols of a step, characters of an update
    alternatives: tuple[Substitute, ...]  # the likeliest first


class Alternatives:
    """Follows the committed words of those streams that ask for alternatives."""

    def __init__(self, streams: int, vocabulary: Vocabulary, beam: Beam) -> None:
        """Follow so many streams; there are alternatives where the search has pronunciations."""
        self._words, self._texts = beam.words, vocabulary.texts
        self._known = beam.width > 1 and beam.phones > 0
        self._wanted = np.zeros(streams, np.int64)  # alternatives of a word
        self._begun = np.zeros((streams, pronunciation.PLACES), np.float32)
        self._state = np.zeros((streams, 4), np.int32)  # of the committed text

    def reset(self, rows: Rows) -> None:
        """Reset the streams in (R,) rows, which ask for none."""
        self._wanted[rows], self._state[rows] = 0, ROOT
        self._begun[rows] = IMPOSSIBLE
        self._begun[rows, pronunciation.NOW] = 0

    def warm(self, stepper: Stepper) -> None:
        """Compile what a step needs, so that no stream waits for it."""
        if self._known:
            one = np.zeros(1, np.int64)
            self._wanted[0] = 1
            self.step(one, Emissions.nothing(1, 1), np.ones(1, np.bool_), stepper)
            self.reset(one)

    def want(self, row: int, most: int) -> None:
        """Find so many alternatives of each word of a stream."""
        self._wanted[row] = min(most, lexicon_search.MOST) if self._known else 0

    def step(
        self, rows: Rows, emissions: Emissions, ended: NDArray[np.bool_], stepper: Stepper
    ) -> dict[int, tuple[WordEnd, ...]]:
        """Return the words with alternatives that end with a step of (R,) rows, by place in those.

        Args:
            rows: which streams, each once.
            emissions: of their step.
            ended: (R,) whether the utterance or the stream ends with it.
            stepper: remembers what the phone head has heard.
        """
        places = np.flatnonzero(self._wanted[rows])
        if not len(places):
            return {}
        asking = rows[places]
        symbols, late = (np.ascontiguousarray(part[places]) for part in emissions[:2])
        shape = (len(places), symbols.shape[1] + 1, lexicon_search.MOST)
        nodes, scores = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
        heard, memory = stepper.spoken(asking), (self._begun, self._state)
        news = symbols, late, ended[places], heard, self._words
        lexicon_search.follow(asking, *news, *memory, nodes, scores)
        found: dict[int, list[WordEnd]] = {}
        for r, n in np.argwhere(nodes[:, :, 0] >= 0).tolist():
            before = int((symbols[r, :n] >= 0).sum())
            likeliest = self._alternatives(nodes[r, n], scores[r, n], self._wanted[asking[r]])
            found.setdefault(int(places[r]), []).append(WordEnd(before, likeliest))
        return {place: tuple(ends) for place, ends in found.items()}

    def _alternatives(
        self, nodes: NDArray[np.int32], scores: NDArray[np.float32], most: int
    ) -> tuple[Substitute, ...]:
        """Return the first of the words at (MOST,) nodes."""
        shares = np.exp(SHARPNESS * (scores - scores[0]))
        shares *= COVERED / shares.sum()
        pairs = zip(nodes[:most].tolist(), shares.tolist(), strict=False)
        return tuple(Substitute(self._spelt(node), share) for node, share in pairs if node >= 0)

    def _spelt(self, node: int) -> str:
        """Return the letters up to a node of the tree."""
        letters = []
        while node != ROOT:
            letters.append(self._texts[self._words.symbols[node]])
            node = int(np.searchsorted(self._words.children, node, "right")) - 1
        return "".join(reversed(letters))

    def snapshot(self, row: int) -> list[float]:
        """Return what `restore` takes; nothing for a stream that asks for no alternatives."""
        if not self._wanted[row]:
            return []
        own = self._wanted[row : row + 1], self._state[row], self._begun[row]
        return [number for part in own for number in part.tolist()]

    def restore(self, row: int, state: list[float]) -> None:
        """Give a row what `snapshot` returned."""
        if state:
            self._wanted[row], self._state[row] = state[0], state[1:5]
            self._begun[row] = state[5:]
