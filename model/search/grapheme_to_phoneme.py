"""Grapheme to phoneme: words that the lexicon lacks are pronounced by analogy with its words.

The language model knows which phones each letter of its words takes. A letter of another word takes
those that it takes most often where the letters around it are the same, as many of them as can be
found.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cortado.model.search import language_model as language
from cortado.model.search.language_model import MOST_TAKEN, Language

AROUND = (0, 1, -1, 2, -2, 3, -3)  # places of letters, from a letter's own, the most telling first
BITS = 8  # of a letter in a context
NO_LETTER = 0  # before and behind a word
UNKNOWN = -1  # what a letter takes that no word has
FIRST_LETTER = 2  # the vocabulary's first symbol; 1 is a letter that the vocabulary lacks

Numbers = NDArray[np.int64]


class GraphemeToPhoneme:
    """Pronounces words as the words of a language model's lexicon are."""

    def __init__(self, words: Language) -> None:
        """Take a language model that knows which phones the letters of its words take."""
        self._words = words
        self._likeliest: list[tuple[Numbers, Numbers]] = []

    def pronounce(self, word: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return a word's phones, and for each of its symbols how many of them end with it.

        A symbol that no word of the lexicon has takes none.
        """
        row = np.array([[FIRST_LETTER + symbol for symbol in word]])
        contexts = _contexts(row, np.zeros(len(word), np.int64), np.arange(len(word)))
        taken = np.full(len(word), UNKNOWN)
        for unlike, (known, likeliest) in enumerate(self.learn()):
            context = contexts >> BITS * unlike
            at = np.minimum(np.searchsorted(known, context), len(known) - 1)
            found = (taken == UNKNOWN) & (known[at] == context)
            taken[found] = likeliest[at[found]]
        phones: list[int] = []
        stops = []
        for code in taken.tolist():
            phones += _phones(code)
            stops.append(len(phones))
        return phones, stops

    def learn(self) -> Sequence[tuple[Numbers, Numbers]]:
        """Return the contexts of the lexicon's letters, ascending, and what each takes most often.

        Both are numbers; first whole contexts, then those that lack the least telling letters, one
        after another. The first time takes 0.3 s.
        """
        if not self._likeliest:
            contexts, taken = _examples(self._words)
            self._likeliest = [
                _likeliest(contexts >> BITS * unlike, taken) for unlike in range(len(AROUND))
            ]
        return self._likeliest


def _examples(lm: Language) -> tuple[Numbers, Numbers]:
    """Return the context of each letter of the lexicon and the phones that it takes, as numbers."""
    letters = _letters(lm)
    rows, places = np.nonzero(letters)
    counts = np.zeros(letters.shape, np.int64)
    counts[rows, places] = lm.taken
    spoken = np.diff(lm.spoken_starts)
    whole = ((counts.sum(1) == spoken) & (spoken > 0))[rows]
    rows, places = rows[whole], places[whole]
    first = (lm.spoken_starts[:-1, None] + counts.cumsum(1) - counts)[rows, places]
    phones = np.zeros(len(rows), np.int64)
    for n in reversed(range(MOST_TAKEN)):
        more = n < counts[rows, places]
        last = lm.spoken[np.minimum(first + n, len(lm.spoken) - 1)]
        phones = np.where(more, phones << BITS | last, phones)
    return _contexts(letters, rows, places), phones


def _letters(lm: Language) -> Numbers:
    """Return the letters (W, longest) of words by number, NO_LETTER behind a word."""
    levels = list(language.levels(lm.children))
    spelt = np.zeros((len(lm.words), len(levels)), np.int64)
    parents = np.repeat(np.arange(len(lm.words)), np.diff(lm.children))  # of all nodes but the root
    for depth, (start, end) in enumerate(levels):
        spelt[start:end] = spelt[parents[start - 1 : end - 1]]
        spelt[start:end, depth] = FIRST_LETTER + lm.symbols[start:end]
    found = np.zeros((len(lm.left1), spelt.shape[1]), np.int64)
    ends = np.flatnonzero(lm.words >= 0)
    found[lm.words[ends]] = spelt[ends]
    return found


def _contexts(spelt: Numbers, rows: Numbers, places: Numbers) -> Numbers:
    """Return each letter and those around it as a number, the most telling in its highest bits."""
    found = np.zeros(len(rows), np.int64)
    length = spelt.shape[1]
    for offset in AROUND:
        at = places + offset
        inside = (at >= 0) & (at < length)
        letters = spelt[rows, np.clip(at, 0, length - 1)]
        found = found << BITS | np.where(inside, letters, NO_LETTER)
    return found


def _likeliest(contexts: Numbers, taken: Numbers) -> tuple[Numbers, Numbers]:
    """Return the contexts that there are, ascending, and what is taken most often in each."""
    order = np.lexsort((taken, contexts))
    contexts, taken = contexts[order], taken[order]
    first = np.flatnonzero(_changes(contexts) | _changes(taken))
    uses = np.diff(first, append=len(order))
    contexts, taken = contexts[first], taken[first]
    order = np.lexsort((taken, -uses, contexts))
    contexts, taken = contexts[order], taken[order]
    first = np.flatnonzero(_changes(contexts))
    return contexts[first], taken[first]


def _changes(values: Numbers) -> NDArray[np.bool_]:
    """Return where (N,) values are not those before them; the first is not."""
    return np.append(True, values[1:] != values[:-1])[: len(values)]


def _phones(code: int) -> list[int]:
    """Return the phones in a number, `UNKNOWN` for none."""
    phones = []
    while code > 0:
        phones.append(code % (1 << BITS))
        code >>= BITS
    return phones
