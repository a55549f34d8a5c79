"""Tied states of phones in context, by a decision tree for each state of each phone.

Most contexts are too rare for Gaussians of their own. A tree splits them by questions about the
phones to the left and right. Each split is the one that raises the likelihood of the frames most,
as long as both sides have enough frames (Young, Odell & Woodland 1994).
"""

import heapq
from typing import NamedTuple

import numpy as np

from cortado.model.arrays import Array
from cortado.training.data.pronounce import PHONES

STATES = 3  # of a phone: it begins, lasts and ends
EDGE = len(PHONES)  # the neighbour of a word's first phone, and of its last
CLASSES = (
    "aɪ aʊ eɪ i oʊ u æ ɑ ɔ ɔɪ ə ɚ ɛ ɜ ɪ ʊ ʌ",  # vowels,
    "aɪ aʊ eɪ oʊ ɔɪ",  # those that move,
    "aɪ eɪ i ɔɪ ɪ ɛ æ",  # that are or end in front,
    "aʊ oʊ u ʊ ɔ",  # that are rounded,
    "i u ɪ ʊ",  # high
    "æ ɑ aɪ aʊ ɔ",  # and low ones,
    "ə ʌ ɚ ɜ",  # those of the middle,
    "ɚ ɜ ɹ",  # r and its vowels;
    "b d ɡ p t k ɾ",  # stops,
    "p t k",
    "b d ɡ",
    "f v s z ʃ ʒ θ ð h",  # fricatives,
    "s z ʃ ʒ tʃ dʒ",  # those that hiss,
    "tʃ dʒ",
    "m n ŋ",  # nasals,
    "l ɹ w j",  # glides;
    "b p m f v w",  # of the lips,
    "t d n s z l ɾ θ ð",  # the teeth,
    "ʃ ʒ tʃ dʒ j",  # the palate
    "k ɡ ŋ",  # and the velum;
    "p t k f s ʃ θ tʃ h",  # without voice
)


class Statistics(NamedTuple):
    """Sums over the frames of one state of one phone, for each of its C contexts."""

    left: Array  # (C,) the phone before
    right: Array  # (C,) the phone after
    frames: Array  # (C,) their number
    sums: Array  # (C, D) of their features
    squares: Array  # (C, D) of the features' squares


# gain (negative), state, (phone, position), region (left, right) of contexts, sums, (class, side)
Split = tuple[float, int, tuple[int, int], Array, Statistics, tuple[int, int]]


def questions() -> Array:
    """Return (Q, P + 1) whether a phone or the edge is in a class; the last classes hold one."""
    members = np.zeros((len(CLASSES), EDGE + 1), bool)
    for row, names in zip(members, CLASSES, strict=True):
        row[[PHONES.index(name) for name in names.split()]] = True
    return np.concatenate([members, np.eye(EDGE + 1, dtype=bool)])


def tie_states(context: Array, frames: Array, max_states: int, min_frames: int) -> Array:
    """Return the states of all contexts, from frames whose contexts are known.

    They count from 1, 0 is silence: (P + 1, P, P + 1, STATES) by left phone, phone, right phone
    and position.

    Args:
        context: (4, T) of each frame: left phone (EDGE for none), own phone, right phone, and which
            of its states.
        frames: (T, D) features.
        max_states: without silence.
        min_frames: of each state that comes of a split.
    """
    classes = questions()
    left, phone, right, nth = context
    table = np.zeros((EDGE + 1, EDGE, EDGE + 1, STATES), np.int32)
    queue: list[Split] = []
    number = 0
    for p in range(EDGE):
        for k in range(STATES):
            number += 1
            table[:, p, :, k] = number
            own = np.flatnonzero((phone == p) & (nth == k))
            if len(own):
                sums = _statistics(left[own], right[own], frames[own])
                everywhere = np.ones((EDGE + 1, EDGE + 1), bool)
                _push_best_split(queue, number, (p, k), everywhere, sums, classes, min_frames)
    while queue and number < max_states:
        _, old, (p, k), region, sums, (q, side) = heapq.heappop(queue)
        number += 1
        yes = classes[q][:, None] if side == 0 else classes[q][None]
        table[:, p, :, k][region & yes] = number
        inside = classes[q][sums.left if side == 0 else sums.right]
        for state, part, rows in ((number, region & yes, inside), (old, region & ~yes, ~inside)):
            some = Statistics(*(array[rows] for array in sums))
            _push_best_split(queue, state, (p, k), part, some, classes, min_frames)
    return table


def _statistics(left: Array, right: Array, frames: Array) -> Statistics:
    pairs, index = np.unique(left * (EDGE + 1) + right, return_inverse=True)
    count = np.bincount(index).astype(float)
    sums, squares = (np.zeros((len(pairs), frames.shape[1])) for _ in range(2))
    np.add.at(sums, index, frames)
    np.add.at(squares, index, frames.astype(float) ** 2)
    return Statistics(pairs // (EDGE + 1), pairs % (EDGE + 1), count, sums, squares)


def _push_best_split(
    queue: list[Split],
    number: int,
    state: tuple[int, int],
    region: Array,
    sums: Statistics,
    classes: Array,
    min_frames: int,
) -> None:
    """Put the best split of a state into the queue, if there is one."""
    whole = _log_likelihood(*(part.sum(0) for part in sums[2:]))
    best, question = 0.0, None
    for side, neighbours in enumerate((sums.left, sums.right)):
        yes = classes[:, neighbours].astype(float)  # (Q, C)
        parts = [part @ value for part in (yes, 1 - yes) for value in sums[2:]]
        gain = _log_likelihood(*parts[:3]) + _log_likelihood(*parts[3:]) - whole
        gain[np.minimum(parts[0], parts[3]) < min_frames] = 0
        if gain.max() > best:
            best, question = float(gain.max()), (int(gain.argmax()), side)
    if question:
        heapq.heappush(queue, (-best, number, state, region, sums, question))


def _log_likelihood(count: Array, sums: Array, squares: Array) -> Array:
    """Return the log-likelihood of frames under their best Gaussian, without constants."""
    count = np.maximum(count, 1.0)
    mean = sums / count[..., None]
    variance = np.maximum(squares / count[..., None] - mean**2, 1e-2)
    likelihood: Array = -0.5 * count * np.log(variance).sum(-1)
    return likelihood
