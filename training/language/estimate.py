"""Estimation of the language model of a search: a word trigram.

The trigram is interpolated Kneser-Ney with three discounts for each order (Chen & Goodman 1999),
stored as in ARPA files: the whole probability of what was seen, and for each history the share that
is left for the rest. Counting is sorting: arrays of one number for each n-gram.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import count as numbers_from
from typing import NamedTuple

import numpy as np

from cortado.model.arrays import Array
from cortado.model.search.language_model import BEGIN, END, UNKNOWN
from cortado.training.language.lexicon import SPECIAL, tree

MOST_WORDS = 2_000_000  # three of them fit into 63 bits
MOST_LETTERS = 40  # of a word; the trees' arrays are as wide as the longest one
COMMON_SHARE = 0.04  # of the unigrams' probability, for words by how common they are everywhere
DISCOUNTS = 3  # one for n-grams seen once, twice, and more often


class Estimate(NamedTuple):
    """A language model, and what its n-grams are worth.

    An n-gram's worth is the nats that the text would lose if its last word had the probability that
    the history leaves to the shorter n-gram (Seymore & Rosenfeld 1996, weighted difference).
    """

    arrays: dict[str, Array]  # of its file
    bigrams: Array  # worth of each bigram
    trigrams: Array  # worth of each trigram
    unknown: float = 0.0  # share of the text's words that the lexicon lacks


def estimate(
    texts: Iterable[str],
    letters: str,
    seen: int = 1,
    common: Mapping[str, float] | None = None,
) -> Estimate:
    """Return a language model of texts, all their n-grams kept.

    Args:
        texts: sentences, words parted by spaces.
        letters: those that a word of the lexicon may have; a word with another one is unknown, and
            so is one of more than MOST_LETTERS.
        seen: how often a word has to occur for the lexicon.
        common: words of the language and how common they are; they join the lexicon, and share
            COMMON_SHARE of the unigrams' probability.

    Raises:
        ValueError: no word, or more than MOST_WORDS; or a letter twice.
    """
    if len(set(letters)) != len(letters):
        raise ValueError(f"expected distinct letters, got {letters!r}")
    written, uses = _numbered(texts)
    known = set(letters)
    chosen = {word for word, n in uses.items() if n >= seen} | set(common or ())
    lexicon = sorted(
        (word for word in chosen if len(word) <= MOST_LETTERS and known.issuperset(word)),
        key=lambda word: [letters.index(letter) for letter in word],
    )
    if not lexicon:
        times = f" that occur {seen} times" if seen > 1 else ""
        raise ValueError(f"expected words of {letters!r}{times}, got none")
    if len(lexicon) > MOST_WORDS:
        raise ValueError(
            f"expected at most {MOST_WORDS} words, got {len(lexicon)}; ask for more"
            " occurrences of each"
        )
    index = {word: number for number, word in enumerate(lexicon, SPECIAL)}
    count = SPECIAL + len(lexicon)
    general = np.zeros(count)
    for word, how_common in (common or {}).items():
        if word in index:
            general[index[word]] = how_common
    general *= COMMON_SHARE / (general.sum() or 1)
    final = np.array([BEGIN, END, UNKNOWN, *(index.get(word, UNKNOWN) for word in uses)])
    model = _trigram(final[written], count, general)
    unknown = sum(n for word, n in uses.items() if word not in index) / max(sum(uses.values()), 1)
    return model._replace(arrays=tree(lexicon, letters) | model.arrays, unknown=unknown)


def common_words(count: int, letters: str) -> dict[str, float]:
    """Return English's commonest words that have no other letters, with their frequencies.

    Args:
        count: of the commonest words, from which those with other letters are left out.
        letters: that a word may have.

    Source: wordfreq (Speer 2022), of encyclopedias, subtitles, news, books and the web up to 2021.
    """
    from wordfreq import top_n_list, word_frequency

    known = set(letters)
    words = filter(known.issuperset, top_n_list("en", count))
    return {word: word_frequency(word, "en") for word in words if word.strip("'")}


def _numbered(texts: Iterable[str]) -> tuple[Array, dict[str, int]]:
    """Return all words by number, and how often each occurs, in the order of their numbers.

    Two beginnings stand before each sentence, an end behind it.
    """
    numbers: dict[str, int] = defaultdict(numbers_from(SPECIAL).__next__)
    written = array("i")  # four bytes a word, where a list of strings takes sixty
    for text in texts:
        if words := text.split():
            written.extend((BEGIN, BEGIN, *map(numbers.__getitem__, words), END))
    found = np.array(written)
    uses = np.bincount(found, minlength=SPECIAL + len(numbers))[SPECIAL:]
    return found, dict(zip(numbers, uses.tolist(), strict=True))


def _trigram(words: Array, count: int, general: Array) -> Estimate:
    """Return a trigram of words below `count`, without their tree.

    Args:
        words: of the text, by number.
        count: of the words that there are.
        general: (count,) of the unigrams' probability, what does not come from the text.
    """
    ends = np.flatnonzero(words != BEGIN)  # the last word of each trigram
    before, last, word = words[ends - 2], words[ends - 1], words[ends]
    three, uses3 = np.unique((before * count + last) * count + word, return_counts=True)
    two, new2 = np.unique(three % (count * count), return_counts=True)  # words before each
    begun = two // count == BEGIN  # nothing stands before a beginning: counted as they are
    _, often = np.unique(last * count + word, return_counts=True)
    uses2 = np.where(begun, often, new2)
    one, uses1 = np.unique(two % count, return_counts=True)

    uniform = np.full(count, 1 / (count - 1))  # below the unigrams; nothing is a beginning
    uniform[BEGIN] = 0
    seen1, left0 = _interpolated(np.zeros(len(one), np.int64), uses1, uniform[one], 1)
    p1 = left0 * uniform
    p1[one] = seen1
    p1 = (1 - general.sum()) * p1 + general

    p2, left2 = _interpolated(two // count, uses2, p1[two % count], count)
    at = np.searchsorted(two, three // count)  # each trigram's history among the bigrams
    inner = two[np.minimum(at, len(two) - 1)] == three // count
    lower = p2[np.searchsorted(two, three % (count * count))]
    histories, which = np.unique(three // count, return_inverse=True)
    p3, left3 = _interpolated(which, uses3, lower, len(histories))

    left = np.ones(len(two))
    own = np.searchsorted(histories, two)
    has = histories[np.minimum(own, len(histories) - 1)] == two
    left[has] = left3[own[has]]
    logs = np.log(np.maximum(np.stack([p2, left], 1), 1e-30))
    arrays = {
        "unigrams": np.log(np.maximum(np.stack([p1, left2], 1), 1e-30)).astype(np.float32),
        "starts": np.searchsorted(two, np.arange(count + 1) * count),
        "seconds": two % count,
        "bigrams": logs.astype(np.float32),
        "ends": np.searchsorted(at[inner], np.arange(len(two) + 1)),
        "thirds": (three % count)[inner],
        "trigrams": np.log(p3[inner]).astype(np.float32),
    }
    return Estimate(
        arrays,
        bigrams=often * np.log(p2 / (left2[two // count] * p1[two % count])),
        trigrams=(uses3 * np.log(p3 / (left3[which] * lower)))[inner],
    )


def _interpolated(history: Array, uses: Array, lower: Array, histories: int) -> tuple[Array, Array]:
    """Return each n-gram's probability, and what each history leaves to the order below."""
    total = np.maximum(np.bincount(history, uses, histories), 1)
    own = uses - _discounts(uses)[np.minimum(uses, DISCOUNTS) - 1]
    left = 1 - np.bincount(history, own, histories) / total
    return own / total[history] + left[history] * lower, left


def _discounts(uses: Array) -> Array:
    """Return the discounts of n-grams by how often they are seen, from the counts of counts."""
    once = np.bincount(uses, minlength=DISCOUNTS + 2)[1 : DISCOUNTS + 2].astype(float)
    if not once.all():  # a text of a few sentences
        return np.full(DISCOUNTS, 0.75)
    share = once[0] / (once[0] + 2 * once[1])
    seen = np.arange(1, DISCOUNTS + 1)
    return np.clip(seen - (seen + 1) * share * once[1:] / once[:-1], 0.1, seen)
