"""A neural language model of words, mixed with the trigram where a word ends; compiled.

The trigram knows the last two words, this one the last `N` (Bengio et al. 2003). Their vectors,
side by side, go through a layer of rectified units to one vector, and the scalar product of that
with a word's own vector is the word's log-probability. It is trained to need no normalisation
(Devlin et al. 2014), so one word costs one product. Words that are rare in the text share a vector,
and its probability as they share that of the unigrams.

What the layers make of a history hangs on its words alone. So a thread remembers it by those, in
one place of a table for each, as look_ahead.py does; whether it is found there makes no difference
to its bits.
"""

from typing import NamedTuple

import numpy as np

from cortado.model.arrays import Array
from cortado.model.compiled.functions import exp, log
from cortado.model.compiled.jit import inlined, uncounted

REMEMBERED = 4096  # histories: a power of two
FACTOR = np.int64(2654435761)  # of a history's place
SHIFT = 9  # lowest bits of its hash that do not count
MOST_GAINED = np.float32(30)  # nats, a bound for `exp`
ZERO, ONE = np.float32(0), np.float32(1)


class Neural(NamedTuple):
    """A neural language model of the W words of a lexicon; logarithms are in nats."""

    share: float  # of its probability in the mixture with the trigram's; 0 for none
    rows: Array  # (W,) int32: the row of each word's vector
    within: Array  # (W,) float32: log of a word's share of the probability of its row
    vectors: Array  # (V, D) float32
    biases: Array  # (V,) float32
    hidden: Array  # (N D, H) float32: from the vectors of the last words, newest first, to units
    hidden_biases: Array  # (H,) float32
    output: Array  # (H, D) float32
    output_biases: Array  # (D,) float32

    @property
    def words(self) -> int:
        """N, the words of a history; 0 for no model."""
        return len(self.hidden) // max(self.vectors.shape[1], 1)


class Histories(NamedTuple):
    """What a thread remembers."""

    words: Array  # (REMEMBERED, N) int32: newest first; -1 for none
    outputs: Array  # (REMEMBERED, D) float32
    units: Array  # (H,) float32: memory


def _none() -> Neural:
    row, table = np.zeros(0, np.float32), np.zeros((0, 0), np.float32)
    return Neural(0.0, np.zeros(0, np.int32), row, table, row, table, row, table, row)


NONE = _none()


def histories(n: Neural) -> Histories:
    """Return memory without any history."""
    places = REMEMBERED if n.share > 0 else 0
    return Histories(
        np.full((places, n.words), -1, np.int32),
        np.zeros((places, n.vectors.shape[1]), np.float32),
        np.zeros(len(n.hidden_biases), np.float32),
    )


@uncounted(cached=True)
def gain(
    n: Neural, m: Histories, earlier: Array, before: int, last: int, word: int, trigram: np.float32
) -> np.float32:
    """Return the nats that a word's probability in the mixture is above the trigram's.

    Args:
        n: the model.
        m: what is remembered.
        earlier: (N - 2,) the words before the last two, newest first.
        before: the word before the last one.
        last: the last word.
        word: the one that follows.
        trigram: log of its probability by the trigram.
    """
    found, row = _output(n, m, earlier, before, last), n.rows[word]
    score = n.biases[row] + n.within[word]
    for d in range(len(found)):
        score += found[d] * n.vectors[row, d]
    share = np.float32(n.share)
    return log(ONE - share + share * exp(min(score - trigram, MOST_GAINED)))


@inlined
def _output(n: Neural, m: Histories, earlier: Array, before: int, last: int) -> Array:
    """Return what the layers make of a history (D,)."""
    mixed = (np.int64(last) * FACTOR + before) * FACTOR
    for one in earlier:
        mixed = (mixed + one) * FACTOR
    place = (mixed >> SHIFT) & (REMEMBERED - 1)
    words, found = m.words[place], m.outputs[place]
    if not _is_history(words, earlier, before, last):
        words[0], words[1] = last, before
        for k in range(len(earlier)):
            words[k + 2] = earlier[k]
        _compute(n, words, m.units, found)
    return found


@uncounted(forceinline=True)
def _is_history(words: Array, earlier: Array, before: int, last: int) -> bool:
    """Return whether remembered words are those of a history."""
    same = words[0] == last and words[1] == before
    for k in range(len(earlier)):
        same = same and words[k + 2] == earlier[k]
    return same


@uncounted(cached=True)
def _compute(n: Neural, words: Array, units: Array, found: Array) -> None:
    """Set `found` (D,) to what the layers make of N words; `units` (H,) is memory."""
    size, width = n.vectors.shape[1], len(units)
    for j in range(width):
        units[j] = n.hidden_biases[j]
    for k in range(len(words)):
        vector = n.vectors[n.rows[words[k]]]
        for d in range(size):
            x, weights = vector[d], n.hidden[k * size + d]
            for j in range(width):
                units[j] += x * weights[j]
    for d in range(size):
        found[d] = n.output_biases[d]
    for j in range(width):
        x, weights = units[j], n.output[j]
        if x > ZERO:
            for d in range(size):
                found[d] += x * weights[d]
