"""Which phones of a word belong to which of its letters, learnt from a lexicon.

Each letter takes up to three phones in order, mostly one. The probabilities are counted on the best
segmentations of all words, again and again (hard expectation maximisation). The first segmentation
pairs letters and phones that occur in the same words.
"""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, product

from cortado.training.data.pronounce import Lexicon

MAX_PHONES = 3  # of a letter
ITERATIONS = 6
UNSEEN = -12.0  # log-probability of phones that a letter never took


class LetterPhones:
    """Which phones of a word belong to which letter."""

    def __init__(self, lexicon: Lexicon) -> None:
        """Learn it from the words of a lexicon."""
        self._log_probs: dict[tuple[str, tuple[int, ...]], float] = {}
        pairs = [(word, tuple(phones)) for word, phones in lexicon.items() if phones]
        self._mutual_information = _pointwise_mutual_information(pairs)
        for _ in range(ITERATIONS):
            uses: dict[tuple[str, tuple[int, ...]], int] = {}
            letters: dict[str, int] = {}
            for word, phones in pairs:
                start = 0
                for letter, stop in zip(word, self.segment(word, phones), strict=True):
                    taken = phones[start:stop]
                    uses[letter, taken] = uses.get((letter, taken), 0) + 1
                    letters[letter] = letters.get(letter, 0) + 1
                    start = stop
            self._log_probs = {use: math.log(n / letters[use[0]]) for use, n in uses.items()}

    def segment(self, word: str, phones: Sequence[int]) -> list[int]:
        """Return, for each letter, the number of phones up to its end."""
        phones = tuple(phones)
        max_phones = max(MAX_PHONES, -(-len(phones) // max(1, len(word))))
        best = [[-math.inf] * (len(phones) + 1) for _ in range(len(word) + 1)]
        taken = [[0] * (len(phones) + 1) for _ in range(len(word) + 1)]
        best[0][0] = 0.0
        for i, letter in enumerate(word):
            even = (i + 1) * len(phones) / len(word)  # its end if all letters took as many
            for j in range(len(phones) + 1):
                for k in range(min(max_phones, j) + 1):
                    score = best[i][j - k] + self._score(letter, phones[j - k : j], abs(j - even))
                    if score > best[i + 1][j]:
                        best[i + 1][j], taken[i + 1][j] = score, k
        counts, end = [], len(phones)
        for i in range(len(word), 0, -1):
            counts.append(taken[i][end])
            end -= taken[i][end]
        return list(accumulate(reversed(counts)))

    def _score(self, letter: str, phones: tuple[int, ...], distance: float) -> float:
        if self._log_probs:
            return self._log_probs.get((letter, phones), UNSEEN * max(1, len(phones)))
        together = sum(self._mutual_information.get((letter, phone), UNSEEN) for phone in phones)
        return together - abs(len(phones) - 1) - 0.2 * distance


def _pointwise_mutual_information(
    pairs: Sequence[tuple[str, tuple[int, ...]]],
) -> dict[tuple[str, int], float]:
    """Return the information, in nats, of letters and phones that are in the same words."""
    letters = Counter(letter for word, _ in pairs for letter in set(word))
    phones = Counter(phone for _, spoken in pairs for phone in set(spoken))
    both = Counter(pair for word, spoken in pairs for pair in product(set(word), set(spoken)))
    return {
        (letter, phone): math.log(count * len(pairs) / (letters[letter] * phones[phone]))
        for (letter, phone), count in both.items()
    }
