"""New utterances spliced from the words of recorded ones, while training draws them.

An aligner finds the words of a corpus. Sentences of a text are then put together from runs of such
words, whoever said them. So the recogniser hears real voices say what nobody has said, and cannot
learn by heart what was. The pieces are joined as log-mel frames: no audio is written. Source:
aligned data augmentation (Lam et al. 2021), which replaces single words.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cortado.model.config_reader import json_tree
from cortado.model.progress import Count, counted, unwatched
from cortado.model.whole_file import write_whole
from cortado.training.alignment.word_aligner import WordAligner
from cortado.training.data.log_mel_cache import CachedCorpus, CachedUtterance
from cortado.training.synthesis.corpus import sentences

MARGIN = 10  # frames of silence kept before the first word and behind the last
LEARNT_FROM = 1000  # utterances, from which the aligner learns
LONGEST_RUN = 4  # words that are taken from one recording in a row
SPREAD = 0.4  # nats of power, standard deviation of the level from one piece to the next
WORDS = (2, 12)  # of a sentence
TRIES = 1000  # lines in which words are looked for
Edges = list[list[int]]  # frames in which an utterance's words begin, and where the last one ends


class Piece(NamedTuple):
    """A run of words in an utterance."""

    utterance: int
    start: int  # frames
    end: int


class SplicedCorpus:
    """Utterances made of a corpus' words; each depends on the seed and its number alone."""

    def __init__(
        self, corpus: CachedCorpus, edges: Edges, text: Path, count: int, seed: int
    ) -> None:
        """Plan the utterances.

        Args:
            corpus: whose words.
            edges: `word_edges` of it.
            text: whose sentences, one a line.
            count: how many.
            seed: of what is drawn.

        Raises:
            ValueError: a bad text, or one of whose words hardly any has been said.
        """
        self._corpus, self._seed, self.bands = corpus, seed, corpus.bands
        self._runs: dict[str, list[Piece]] = defaultdict(list)
        for index, (utterance, at) in enumerate(zip(corpus.utterances, edges, strict=True)):
            words = utterance.text.split()
            for i in range(len(at) - 1):
                for j in range(i + 1, min(i + LONGEST_RUN, len(at) - 1) + 1):
                    self._runs[" ".join(words[i:j])].append(Piece(index, at[i], at[j]))
        lines = sentences(text)
        self._plans: list[list[Piece]] = []
        planned: list[CachedUtterance] = []
        self.utterances: Sequence[CachedUtterance] = planned
        for index in range(count):
            rng = np.random.default_rng([seed, 4, index])
            words = self._sentence(lines, rng)
            plan = self._plan(words, rng)
            frames = sum(piece.end - piece.start for piece in plan)
            self._plans.append(plan)
            planned.append(
                CachedUtterance(f"splice-{seed}-{index}", " ".join(words), index, frames)
            )

    def __len__(self) -> int:
        return len(self.utterances)

    def logmel(self, index: int) -> NDArray[np.float32]:
        """Return the (T, F) log-mel frames of an utterance, its pieces about as loud."""
        rng = np.random.default_rng([self._seed, 5, index])
        pieces = [
            self._corpus.logmel(piece.utterance)[piece.start : piece.end]
            for piece in self._plans[index]
        ]
        levels = [float(np.percentile(piece, 80)) for piece in pieces]
        for piece, level in zip(pieces, levels, strict=True):
            piece += levels[0] - level + rng.normal(0, SPREAD)
        return np.concatenate(pieces)

    def _sentence(self, lines: Sequence[str], rng: np.random.Generator) -> list[str]:
        """Return a span of a random line all of whose words have been said."""
        least, most = WORDS
        for _ in range(TRIES):
            line = lines[int(rng.integers(len(lines)))].split(" ")
            length = int(rng.integers(least, most + 1))
            start = int(rng.integers(max(1, len(line) - length + 1)))
            said = [word in self._runs for word in line[start : start + length]]
            known = said.index(False) if False in said else len(said)
            if known >= least:
                return line[start : start + known]
        raise ValueError(
            f"expected a text in which {least} words in a row have been said, "
            f"got none in {TRIES} lines"
        )

    def _plan(self, words: Sequence[str], rng: np.random.Generator) -> list[Piece]:
        """Return what says the words, in runs as long as there are."""
        plan: list[Piece] = []
        at = 0
        while at < len(words):
            length = min(LONGEST_RUN, len(words) - at)
            while " ".join(words[at : at + length]) not in self._runs:
                length -= 1
            said = self._runs[" ".join(words[at : at + length])]
            plan.append(said[int(rng.integers(len(said)))])
            at += length
        return plan


def word_edges(corpus: CachedCorpus, progress: Count = unwatched) -> Edges:
    """Return where words begin and where the last one ends, of each utterance of a corpus.

    An utterance whose words are not found has no edges. The answer is cached beside the frames.

    Args:
        corpus: recordings and texts.
        progress: called with the utterances done and their total.
    """
    texts = [one.text for one in corpus.utterances]
    said = [[one.start, one.text] for one in corpus.utterances]  # of a new recording another start
    path = corpus.folder / "words.json"
    if path.exists():
        kept = json_tree(path)
        if kept.get("utterances") == said:
            kept_edges: Edges = kept["edges"]
            return kept_edges
    some = range(0, len(corpus), max(1, len(corpus) // LEARNT_FROM))
    aligner = WordAligner([(corpus.logmel(k), texts[k]) for k in some])
    edges: Edges = []
    for k, text in enumerate(counted(texts, len(texts), progress)):
        logmel = corpus.logmel(k)
        edges.append(_edges(aligner.words(logmel, text), len(logmel)))
    write_whole(path, json.dumps({"utterances": said, "edges": edges}))
    return edges


def _edges(words: NDArray[np.int64] | None, frames: int) -> list[int]:
    """Return the edges (W + 1,) of words: between two, the middle of the silence between them."""
    if words is None:
        return []
    first = max(int(words[0, 0]) - MARGIN, 0)
    inner = (words[:-1, 1] + words[1:, 0]) // 2
    last = min(int(words[-1, 1]) + MARGIN, frames)
    return [first, *inner.tolist(), last]
