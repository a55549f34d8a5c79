"""Which states of phones in context are one: a decision tree for each state of each phone.

There are more contexts than any corpus has, and most are heard too rarely for Gaussians of their
own. So contexts are parted by questions about the phones to both sides, each time by the one that
makes the frames likeliest, as long as enough frames are left on either side (Young, Odell &
Woodland 1994).
"""

import heapq
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cortado.training.data.pronounce import PHONES

Array = NDArray[Any]

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


class Heard(NamedTuple):
    """What was heard of C contexts of one state of one phone."""

    left: Array  # (C,) the phone before
    right: Array  # (C,) the phone behind
    frames: Array  # (C,) how many
    sums: Array  # (C, D) of their features
    squares: Array  # (C, D) of the features' squares


class Tied(NamedTuple):
    """The states that are left."""

    states: int  # how many, numbered from 1 on; 0 is silence
    table: Array  # (P + 1, P, P + 1, STATES) by left, phone, right, and which of its three


def questions() -> Array:
    """Return (Q, P + 1) true where the phone, or the edge, is in a class; each is one by itself."""
    asked = np.zeros((len(CLASSES), EDGE + 1), bool)
    for row, names in zip(asked, CLASSES, strict=True):
        row[[PHONES.index(name) for name in names.split()]] = True
    return np.concatenate([asked, np.eye(EDGE + 1, dtype=bool)])


def tied(context: Array, frames: Array, most: int, least: int) -> Tied:
    """Return the states of all contexts, from frames whose contexts are known.

    Args:
        context: (4, T) the phone before (EDGE for none), the frame's own, the one behind, and which
            of its states.
        frames: (T, D) features.
        most: states in all, silence not counted.
        least: frames of a state that comes of a division.
    """
    asked = questions()
    left, phone, right, which = context
    table = np.zeros((EDGE + 1, EDGE, EDGE + 1, STATES), np.int32)
    queue: list[tuple[float, int, tuple[int, int], Array, Heard, Array]] = []
    number = 0
    for p in range(EDGE):
        for k in range(STATES):
            number += 1
            table[:, p, :, k] = number
            own = np.flatnonzero((phone == p) & (which == k))
            if len(own):
                heard = _summed(left[own], right[own], frames[own])
                everywhere = np.ones((EDGE + 1, EDGE + 1), bool)
                _offer(queue, number, (p, k), everywhere, heard, asked, least)
    while queue and number < most:
        _, old, (p, k), region, heard, (q, side) = heapq.heappop(queue)
        number += 1
        yes = asked[q][:, None] if side == 0 else asked[q][None]
        table[:, p, :, k][region & yes] = number
        inside = asked[q][heard.left if side == 0 else heard.right]
        for name, part, chosen in ((number, region & yes, inside), (old, region & ~yes, ~inside)):
            some = Heard(*(one[chosen] for one in heard))
            _offer(queue, name, (p, k), part, some, asked, least)
    return Tied(number, table)


def _summed(left: Array, right: Array, frames: Array) -> Heard:
    pairs, place = np.unique(left * (EDGE + 1) + right, return_inverse=True)
    count = np.bincount(place).astype(float)
    sums, squares = (np.zeros((len(pairs), frames.shape[1])) for _ in range(2))
    np.add.at(sums, place, frames)
    np.add.at(squares, place, frames.astype(float) ** 2)
    return Heard(pairs // (EDGE + 1), pairs % (EDGE + 1), count, sums, squares)


def _offer(
    queue: list[Any],
    number: int,
    state: tuple[int, int],
    region: Array,
    heard: Heard,
    asked: Array,
    least: int,
) -> None:
    """Put the best division of a state into the queue, if there is one."""
    whole = _likelihood(*(part.sum(0) for part in heard[2:]))
    best, chosen = 0.0, None
    for side, neighbours in enumerate((heard.left, heard.right)):
        yes = asked[:, neighbours].astype(float)  # (Q, C)
        parts = [part @ value for part in (yes, 1 - yes) for value in heard[2:]]
        gain = _likelihood(*parts[:3]) + _likelihood(*parts[3:]) - whole
        gain[np.minimum(parts[0], parts[3]) < least] = 0
        if gain.max() > best:
            best, chosen = float(gain.max()), (int(gain.argmax()), side)
    if chosen:
        heapq.heappush(queue, (-best, number, state, region, heard, np.array(chosen)))


def _likelihood(count: Array, sums: Array, squares: Array) -> Array:
    """Return the log likelihood of frames by the Gaussian that fits them best, less constants."""
    count = np.maximum(count, 1.0)
    mean = sums / count[..., None]
    variance = np.maximum(squares / count[..., None] - mean**2, 1e-2)
    likelihood: Array = -0.5 * count * np.log(variance).sum(-1)
    return likelihood
