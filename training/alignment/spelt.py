"""When the letters of a text are said: the phones that an aligner finds, shared out to letters.

A letter ends where the last of its phones ends. Which phones are whose is learnt from a lexicon:
each letter takes up to three phones in order, mostly one, and the probabilities of what it takes
are counted on the best divisions of all words, again and again (hard expectation maximisation),
which begins with what is often in one word. A letter that takes none, as the e of "made", ends with
what was said before it.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate, product

import numpy as np
from numpy.typing import NDArray

from cortado.model.features.framing import HOP, SAMPLE_RATE, WINDOW
from cortado.training.alignment.aligner import Frames
from cortado.training.alignment.triphones import Phone, Triphones, said
from cortado.training.data.pronounce import Lexicon

MOST = 3  # phones of a letter
ROUNDS = 6
RARE = -12.0  # log probability of what a letter was never seen to take
LATE = (WINDOW - HOP) / 2 / SAMPLE_RATE  # s by which a frame's middle lies before its hop's


class Spelling:
    """Which phones of a word are whose."""

    def __init__(self, lexicon: Lexicon, words: Iterable[str]) -> None:
        """Learn it from words that the lexicon can pronounce, and that have no fewer letters."""
        self._costs: dict[tuple[str, tuple[int, ...]], float] = {}
        known = [(word, tuple(lexicon.words.get(word, ()))) for word in words]
        pairs = [(word, phones) for word, phones in known if phones]
        self._together = _together(pairs)
        for _ in range(ROUNDS):
            uses: dict[tuple[str, tuple[int, ...]], int] = {}
            letters: dict[str, int] = {}
            for word, phones in pairs:
                before = 0
                for letter, stop in zip(word, self.taken(word, phones), strict=True):
                    taken = phones[before:stop]
                    uses[letter, taken] = uses.get((letter, taken), 0) + 1
                    letters[letter] = letters.get(letter, 0) + 1
                    before = stop
            self._costs = {what: math.log(n / letters[what[0]]) for what, n in uses.items()}

    def taken(self, word: str, phones: Sequence[int]) -> list[int]:
        """Return how many phones the letters up to each one take together, one number a letter."""
        phones = tuple(phones)
        width = -(-len(phones) // max(1, len(word)))
        most = max(MOST, width)
        best = [[-math.inf] * (len(phones) + 1) for _ in range(len(word) + 1)]
        came = [[0] * (len(phones) + 1) for _ in range(len(word) + 1)]
        best[0][0] = 0.0
        for i, letter in enumerate(word):
            even = (i + 1) * len(phones) / len(word)  # where it would stop if all took as many
            for j in range(len(phones) + 1):
                for k in range(min(most, j) + 1):
                    cost = self._cost(letter, phones[j - k : j], abs(j - even))
                    if best[i][j - k] + cost > best[i + 1][j]:
                        best[i + 1][j], came[i + 1][j] = best[i][j - k] + cost, k
        counts, at = [], len(phones)
        for i in range(len(word), 0, -1):
            counts.append(came[i][at])
            at -= came[i][at]
        return list(accumulate(reversed(counts)))

    def _cost(self, letter: str, phones: tuple[int, ...], away: float) -> float:
        if not self._costs:  # what goes together, near where it would lie
            near = sum(self._together.get((letter, phone), RARE) for phone in phones)
            return near - abs(len(phones) - 1) - 0.2 * away
        return self._costs.get((letter, phones), RARE * max(1, len(phones)))


def _together(pairs: Sequence[tuple[str, tuple[int, ...]]]) -> dict[tuple[str, int], float]:
    """Return how much oftener a letter and a phone are in one word than by chance, logarithms."""
    letters = Counter(letter for word, _ in pairs for letter in set(word))
    phones = Counter(phone for _, spoken in pairs for phone in set(spoken))
    both = Counter(pair for word, spoken in pairs for pair in product(set(word), set(spoken)))
    return {
        (letter, phone): math.log(count * len(pairs) / (letters[letter] * phones[phone]))
        for (letter, phone), count in both.items()
    }


def letter_ends(
    aligner: Triphones, spelling: Spelling, lexicon: Lexicon, logmel: Frames, text: str
) -> NDArray[np.float64]:
    """Return the end (U,) of each letter of a text in seconds, NaN for spaces.

    All are NaN where the words cannot be pronounced, or the frames are too few for them.

    Args:
        aligner: that finds the phones.
        spelling: whose they are.
        lexicon: of the words.
        logmel: (T, F).
        text: that is said.
    """
    ends = np.full(len(text), np.nan)
    phones = said(text, lexicon)
    found = aligner.aligned(logmel, phones) if phones else None
    if not found:
        return ends
    at = 0
    for number, word in enumerate(text.split()):
        at = text.index(word, at)
        own = [one for one in found if one.word == number]
        taken = spelling.taken(word, lexicon.words[word])
        ends[at : at + len(word)] = [_end(own, count) for count in taken]
        at += len(word)
    return ends


def _end(phones: Sequence[Phone], count: int) -> float:
    """Return the second in which the first `count` phones are over; a mute beginning's first is."""
    return phones[max(count, 1) - 1].stop * HOP / SAMPLE_RATE - LATE
