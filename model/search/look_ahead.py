"""What the language model gives each next symbol of a text, remembered for other texts and frames.

A text keeps its score of each next symbol as long as it stands, and many hypotheses, of other
streams, too, have the same unfinished word behind the same two words. So a thread remembers the
scores by those three, in one place of a table for each; another text may take the place. Whether a
score is found there or computed makes no difference to its bits.
"""

from typing import NamedTuple

import numpy as np

from cortado.model.arrays import Array
from cortado.model.compiled.functions import log
from cortado.model.compiled.jit import inlined, uncounted
from cortado.model.search import phrases
from cortado.model.search.language_model import (
    LEAST,
    NOWHERE,
    ROOT,
    Language,
    after,
    followed,
    mass_below,
    placed,
    word_end_gain,
)

TEXTS = 8192  # that are remembered: a power of two
UNKNOWN = np.float32(np.inf)  # a score that was not needed yet
FACTORS = np.int64(2654435761), np.int64(40503), np.int64(69069)  # of a text's place
SHIFT = 9  # lowest bits of the sum that do not count


class Known(NamedTuple):
    """The scores that a thread remembers."""

    texts: Array  # (TEXTS, 3) int32: a tree node + 2 and the two words before; 0 for none
    gains: Array  # (TEXTS, V) float32: nats that each next symbol gains, or UNKNOWN


def known(lm: Language, vocabulary: int) -> Known:
    """Return memory for the scores of a language model and V symbols, without any."""
    texts = TEXTS if lm.weight > 0 else 0
    return Known(np.zeros((texts, 3), np.int32), np.zeros((texts, vocabulary), np.float32))


@uncounted(cached=True, forceinline=True)
def weigh(
    lm: Language, node: int, before: int, last: int, least: np.float32, k: Known, scores: Array
) -> None:
    """Add the language model's score of each next symbol to `scores` (V,), in nats.

    Args:
        lm: the language model.
        node: tree node of the unfinished word.
        before: the word before the last one.
        last: the last whole word.
        least: score below which a symbol is pruned anyway, so its exact score is not computed.
        k: what is remembered.
        scores: of the symbols, in nats; changed in place.
    """
    bonus = np.float32(lm.bonus)
    reached = least - bonus
    gains = _remembered(lm, node, before, last, k)
    lacking = 0
    for symbol in range(len(scores)):
        lacking += scores[symbol] >= reached and gains[symbol] == UNKNOWN
    if lacking:
        _look_up(lm, node, before, last, reached, scores, gains)
    outside = np.float32(lm.weight * _outside(lm, node)) + bonus
    of_space = scores[lm.space]
    for symbol in range(len(scores)):
        score = scores[symbol]
        scores[symbol] = (score + gains[symbol] if score >= reached else score) + outside
    scores[lm.space] = of_space + (gains[lm.space] if of_space >= reached else bonus)


@uncounted(forceinline=True)
def waive_leaving(
    lm: Language, node: int, tree: Array, phrase: int, is_weighed: bool, scores: Array
) -> None:
    """Waive the price of leaving the lexicon in `scores` (V,), for symbols along a phrase.

    A symbol that leaves the phrase, too, pays what was waived before it.

    Args:
        lm: the language model.
        node: tree node of the unfinished word.
        tree: of the phrases that the stream expects.
        phrase: the text's node there.
        is_weighed: whether the space's score had reached what `weigh` asks for.
        scores: of the symbols, in nats, `weigh` included; changed in place.
    """
    if phrase == phrases.OUTSIDE:
        return
    outside, leaving = np.float32(lm.weight * _outside(lm, node)), waived(lm, node, phrase)
    for symbol in range(len(scores)):
        if symbol == lm.space:
            continue
        if phrases.followed(tree, phrase, symbol) == phrases.OUTSIDE:
            scores[symbol] += leaving
        elif followed(lm, node, 0, 0, symbol)[0] == NOWHERE:
            scores[symbol] -= outside
    if not phrases.ends_word(tree, phrase):
        scores[lm.space] += leaving
    elif is_weighed and node != NOWHERE and node != ROOT and lm.words[node] < 0:
        scores[lm.space] -= np.float32(lm.weight * lm.leaving)


@uncounted(forceinline=True)
def waived(lm: Language, node: int, phrase: int) -> np.float32:
    """Return the nats that a word should have cost where it left the lexicon along a phrase.

    A stream without phrases is always at their root.
    """
    if node != NOWHERE or phrase in (phrases.OUTSIDE, phrases.ROOT):
        return np.float32(0)
    return np.float32(lm.weight * lm.leaving)


@uncounted(forceinline=True)
def _outside(lm: Language, node: int) -> float:
    """Return the log of the price of a letter outside the tree."""
    return lm.letter if node == NOWHERE else lm.leaving + lm.letter


@inlined
def _remembered(lm: Language, node: int, before: int, last: int, k: Known) -> Array:
    """Return the gains (V,) that are remembered of a text's next symbols.

    Those of letters lack what a letter outside the tree costs.
    """
    mixed = node * FACTORS[0] + before * FACTORS[1] + last * FACTORS[2]
    place = (mixed >> SHIFT) & (TEXTS - 1)
    text, gains = k.texts[place], k.gains[place]
    if text[0] == node + 2 and text[1] == before and text[2] == last:
        return gains
    text[0], text[1], text[2] = node + 2, before, last
    gains[:] = np.float32(0)
    bonus = np.float32(lm.bonus)
    if node == NOWHERE:
        gains[lm.space] = bonus
        return gains
    for child in range(lm.children[node], lm.children[node + 1]):
        if lm.symbols[child] >= 0:
            gains[lm.symbols[child]] = UNKNOWN
    if node == ROOT:  # two spaces: no word
        gains[lm.space] = np.float32(2 * lm.weight * lm.leaving)
    elif lm.words[node] < 0:
        gains[lm.space] = np.float32(lm.weight * lm.leaving) + bonus
    else:
        gains[lm.space] = UNKNOWN
    return gains


@uncounted(forceinline=True)
def _look_up(
    lm: Language,
    node: int,
    before: int,
    last: int,
    reached: np.float32,
    scores: Array,
    gains: Array,
) -> None:
    """Set the unknown ones of a text's gains (V,) whose symbols have reached a score."""
    outside = _outside(lm, node)
    a = after(lm, before, last)
    low, high, whole = placed(lm, lm.lows[node], a.start, a.end), a.end, 1.0
    first = mass_below(lm, a, lm.lows[node], low)
    if node != ROOT:
        high = placed(lm, lm.highs[node], low, a.end)
        whole = max(mass_below(lm, a, lm.highs[node], high) - first, LEAST)
    passed, there = lm.lows[node], low  # a word and its place: children's words ascend
    for child in range(lm.children[node], lm.children[node + 1]):
        symbol = lm.symbols[child]
        if symbol >= 0 and scores[symbol] >= reached and gains[symbol] == UNKNOWN:
            begin, end = lm.lows[child], lm.highs[child]
            if begin != passed:
                there = placed(lm, begin, there, high)
            part = -mass_below(lm, a, begin, there)
            passed, there = end, placed(lm, end, there, high)
            part += mass_below(lm, a, end, there)
            gained = log(np.float32(max(part, LEAST) / whole)) - outside
            gains[symbol] = np.float32(lm.weight * gained)
    if scores[lm.space] >= reached and gains[lm.space] == UNKNOWN:
        gains[lm.space] = word_end_gain(lm, node, before, last) + np.float32(lm.bonus)
