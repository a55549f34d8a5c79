"""A word trigram language model that scores a search's text symbol by symbol, compiled.

The lexicon is a tree of letters; a node stands for all words with one beginning. A trigram model
(Kneser & Ney 1995) gives the probability of those words together after the two words before. So
every letter has a score at once, before its word ends (look-ahead of Ortmanns et al. 1996). Words
are numbered in the tree's order, so the words below a node are a range, and their probability is a
difference of cumulative sums: a few binary searches, whatever the number of words.

Where a word ends, a neural language model may be mixed in, which has more words before it
(neural_language_model.py).

A word outside the lexicon may be written, too. It costs a price for leaving the tree and one for
each letter from there on, both constants of the file (language_file.py).
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from cortado.model.arrays import Array
from cortado.model.compiled.functions import log
from cortado.model.compiled.jit import inlined, uncounted
from cortado.model.search import neural_language_model, source_model
from cortado.model.search.neural_language_model import Histories, Neural

BEGIN, END, UNKNOWN = 0, 1, 2  # words besides those of the lexicon, which follow
MOST_TAKEN = 3  # phones of a letter; a word with more for one has none for all of its letters
LEAST = 1e-12  # probability, a bound against rounding
ROOT, NOWHERE = 0, -1  # nodes: before a word's first letter, and in a word that is not in the tree


class Language(NamedTuple):
    """A language model prepared for one vocabulary; logarithms are in nats."""

    weight: float  # of its log-probabilities beside the recogniser's; 0 for no language model
    bonus: float  # nats added for each symbol, which offset the language model's costs
    leaving: float  # log of the price of leaving the tree
    letter: float  # log of the price of each letter outside it
    space: int  # the symbol that ends a word
    symbols: Array  # (N,) int32: a node's last letter; -1 where the vocabulary lacks it
    children: Array  # (N + 1,) int32: where a node's children begin; they end where the next's do
    words: Array  # (N,) int32: the word that a node ends, -1 for none
    lows: Array  # (N,) int32: the first word below a node
    highs: Array  # (N,) int32: the one after the last
    starts: Array  # (W + 1,) int32: where the bigrams of a first word begin
    seconds: Array  # (B,) int32: their second words, ascending for each first one
    ends: Array  # (B + 1,) int32: where the trigrams of a bigram begin
    thirds: Array  # (T,) int32: their third words, ascending
    left1: Array  # (W,) float64: back-off weight of a word, to the unigrams
    left2: Array  # (B,) float64: back-off weight of a bigram, to the bigrams
    sums1: Array  # (W + 1,) float64: cumulative sum of the unigrams' probabilities
    sums2: Array  # (B + 1,) float64: of the bigrams', less their back-off part
    sums3: Array  # (T + 1,) float64: of the trigrams', less their back-off part
    spoken: Array  # (P,) int32: the words' phones, outputs of the recogniser's phone head
    spoken_starts: Array  # (W + 1,) int32: where a word's phones begin; those of none are unknown
    likeliest: Array  # (N,) int32: the likeliest word below a node
    said: Array  # (N,) int32: how many of its phones the letters up to the node take
    source: Array  # (V + 1, V + 1, V) float32: what is taken off a symbol's score (source_model.py)
    taken: Array  # (L,) uint8: how many phones each letter of the words takes, word by word
    neural: Neural = neural_language_model.NONE  # what the trigram is mixed with

    @property
    def pronounces(self) -> bool:
        """Whether it knows how its words are pronounced."""
        return len(self.spoken) > 0

    @property
    def spells(self) -> bool:
        """Whether it knows which phones the letters of its words take; older files do not."""
        return len(self.taken) > 0

    @property
    def known(self) -> int:
        """The number of words in its lexicon."""
        return max(len(self.left1) - UNKNOWN - 1, 0)


_NOTHING: list[Any] = [
    *(0.0, 0.0, 0.0, 0.0, -1),
    *(np.zeros(0, np.int32) for _ in range(9)),
    *(np.zeros(0) for _ in range(5)),
    *(np.zeros(0, np.int32) for _ in range(4)),
    *[source_model.NONE, np.zeros(0, np.uint8)],
]
NONE = Language(*_NOTHING)


def levels(children: Array) -> Iterator[tuple[int, int]]:
    """Yield the ranges of the nodes of words' first letters, second letters, and so on."""
    start, end = 1, int(children[1])
    while start < end:
        yield start, end
        start, end = int(children[start]), int(children[end])


class Place(NamedTuple):
    """Where a word is, or would be inserted, among those that may follow two others."""

    second: np.int64  # among bigrams
    third: np.int64  # among trigrams


class After(NamedTuple):
    """What may follow two words: the ranges of the n-grams, and their back-off weights."""

    start: Place
    end: Place
    left1: float
    left2: float


@uncounted(forceinline=True)
def _lower_bound(word: int, words: Array, start: Any, end: Any) -> Any:
    """Return where in an ascending range of an array a word is, or would be inserted."""
    while start < end:
        middle = (start + end) // 2
        if words[middle] < word:
            start = middle + 1
        else:
            end = middle
    return start


@uncounted(forceinline=True)
def after(lm: Language, before: int, last: int) -> After:
    """Return what may follow two words."""
    end = lm.starts[before + 1]
    pair = _lower_bound(last, lm.seconds, lm.starts[before], end)
    start3, end3, left2 = lm.ends[0], lm.ends[0], 1.0  # none
    if pair < end and lm.seconds[pair] == last:
        start3, end3, left2 = lm.ends[pair], lm.ends[pair + 1], lm.left2[pair]
    start = Place(np.int64(lm.starts[last]), np.int64(start3))
    stop = Place(np.int64(lm.starts[last + 1]), np.int64(end3))
    return After(start, stop, lm.left1[last], left2)


@uncounted(forceinline=True)
def placed(lm: Language, word: int, start: Place, end: Place) -> Place:
    """Return the place of a word between two places."""
    second = _lower_bound(word, lm.seconds, start.second, end.second)
    return Place(second, _lower_bound(word, lm.thirds, start.third, end.third))


@uncounted(forceinline=True)
def mass_below(lm: Language, a: After, word: int, place: Place) -> float:
    """Return the total probability of all words numbered below `word`, whose place is `place`."""
    second = lm.sums2[place.second] - lm.sums2[a.start.second]
    third = lm.sums3[place.third] - lm.sums3[a.start.third]
    return a.left2 * (a.left1 * lm.sums1[word] + second) + third


@uncounted(forceinline=True)
def log_probability(lm: Language, a: After, low: int, high: int) -> np.float32:
    """Return the log-probability of the words from `low` to before `high`, in nats."""
    place = placed(lm, low, a.start, a.end)
    part = mass_below(lm, a, high, placed(lm, high, place, a.end))
    part -= mass_below(lm, a, low, place)
    return log(np.float32(max(part, LEAST)))


@uncounted(cached=True)
def word_end_gain(lm: Language, node: int, before: int, last: int) -> np.float32:
    """Return what a text gains, in nats, where its unfinished word ends at a node.

    Outside the lexicon that is nothing: what such a word costs is paid.
    """
    if node in (ROOT, NOWHERE):
        return np.float32(0)
    if lm.words[node] < 0:
        return np.float32(lm.weight * lm.leaving)
    a = after(lm, before, last)
    low = placed(lm, lm.lows[node], a.start, a.end)
    high = placed(lm, lm.highs[node], low, a.end)
    first = mass_below(lm, a, lm.lows[node], low)
    whole = max(mass_below(lm, a, lm.highs[node], high) - first, LEAST)
    end = lm.words[node] + 1
    part = max(mass_below(lm, a, end, placed(lm, end, low, high)) - first, LEAST)
    return np.float32(lm.weight * log(np.float32(part / whole)))


@uncounted(cached=True)
def mixture_gain(
    lm: Language, m: Histories, node: int, before: int, last: int, earlier: Array
) -> np.float32:
    """Return what a text gains, in nats, where its word ends and the neural model is mixed in.

    Args:
        lm: the language model.
        m: what is remembered of the neural one.
        node: at which a word of the lexicon ends.
        before: the word before the last one.
        last: the last whole word.
        earlier: (N - 2,) the words before those, newest first.
    """
    word = lm.words[node]
    trigram = log_probability(lm, after(lm, before, last), word, word + 1)
    gained = neural_language_model.gain(lm.neural, m, earlier, before, last, word, trigram)
    return np.float32(lm.weight) * gained


@uncounted(cached=True, forceinline=True)
def followed(lm: Language, node: int, before: int, last: int, symbol: int) -> tuple[int, int, int]:
    """Return the next state (node and the two words before) after one symbol more."""
    if symbol == lm.space:
        if node == ROOT:
            return ROOT, before, last
        word = lm.words[node] if node != NOWHERE else -1
        return ROOT, last, word if word >= 0 else UNKNOWN
    if node != NOWHERE:
        for child in range(lm.children[node], lm.children[node + 1]):
            if lm.symbols[child] == symbol:
                return child, before, last
    return NOWHERE, before, last


@inlined
def begun_phones(lm: Language, node: int) -> Array:
    """Return the phones that the letters up to a node have in the likeliest word below it."""
    if node in (NOWHERE, ROOT):
        return lm.spoken[:0]
    first = lm.spoken_starts[lm.likeliest[node]]
    return lm.spoken[first : first + lm.said[node]]


@uncounted(forceinline=True)
def ends_word(lm: Language, node: int) -> bool:
    """Return whether a word of the lexicon ends at a node."""
    return bool(node != NOWHERE and lm.words[node] >= 0)


@inlined
def word_phones(lm: Language, node: int) -> Array:
    """Return the phones of the word that ends at a node; none if they are not known."""
    if not ends_word(lm, node):
        return lm.spoken[:0]
    word = lm.words[node]
    return lm.spoken[lm.spoken_starts[word] : lm.spoken_starts[word + 1]]
