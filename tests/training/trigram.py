"""A word trigram as its definition has it, in dictionaries, and text to count."""

from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np

BEGIN, END, UNKNOWN = "<s>", "</s>", "<unk>"
LETTERS = "bac'"  # not in the order of the alphabet
WORDS = ("b", "ba", "bac", "a", "ab", "abba", "c'a", "cab", "cabb", "c", "'a", "aa")

Gram = tuple[str, ...]


def sentences(seed: int, count: int, words: Sequence[str] = WORDS) -> list[str]:
    """Sentences of words some of which are frequent, and some follow each other often."""
    random = np.random.default_rng(seed)
    shares = 1 / np.arange(1, len(words) + 1)
    found = []
    for length in random.integers(1, 7, count):
        chosen = random.choice(len(words), length, p=shares / shares.sum())
        repeated = np.where(random.random(length) < 0.3, np.roll(chosen, 1) + 1, chosen)
        found.append(" ".join(words[number % len(words)] for number in repeated))
    return found


class Trigram:
    """Interpolated Kneser-Ney with three discounts (Chen & Goodman 1999, section 4.1)."""

    def __init__(self, texts: Sequence[str], lexicon: Collection[str]) -> None:
        self.words = [END, UNKNOWN, *lexicon]  # that may follow others
        three: Counter[Gram] = Counter()
        begun: Counter[Gram] = Counter()
        for text in texts:
            known = [word if word in lexicon else UNKNOWN for word in text.split()]
            said = [BEGIN, BEGIN, *known, END]
            three.update(zip(said, said[1:], said[2:], strict=False))
            begun[BEGIN, said[2]] += 1
        two = Counter(gram[1:] for gram in three if gram[1] != BEGIN) + begun
        one = Counter(gram[1:] for gram in two)
        self.counts: list[Counter[Gram]] = [one, two, three]
        self.discounts = [self._discounts(counts) for counts in self.counts]
        self.totals: list[Counter[Gram]] = [Counter() for _ in self.counts]
        self.lost: list[Counter[Gram]] = [Counter() for _ in self.counts]  # by discounts
        for n, counts in enumerate(self.counts):
            for gram, uses in counts.items():
                self.totals[n][gram[:-1]] += uses
                self.lost[n][gram[:-1]] += uses - self._rest(gram)  # type: ignore[assignment]

    @staticmethod
    def _discounts(counts: Counter[Gram]) -> list[float]:
        n1, n2, n3, n4 = (sum(uses == n for uses in counts.values()) for n in (1, 2, 3, 4))
        if 0 in (n1, n2, n3, n4):
            return [0.75] * 3
        y = n1 / (n1 + 2 * n2)
        found = [1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3]
        return [min(max(d, 0.1), n) for n, d in enumerate(found, 1)]

    def _rest(self, gram: Gram) -> float:
        """What the discount leaves of an n-gram's count."""
        uses = self.counts[len(gram) - 1][gram]
        if uses == 0:
            return 0.0
        return uses - self.discounts[len(gram) - 1][min(uses, 3) - 1]

    def left(self, *history: str) -> float:
        """What a history leaves to the shorter one; all where it is not kept."""
        total = self.totals[len(history)][history]
        return self.lost[len(history)][history] / total if total else 1.0

    def probability(self, *gram: str) -> float:
        """The probability of a word after those before it; a sentence's first has one before."""
        if not gram:
            return 1 / len(self.words)
        if gram[:2] == (BEGIN, BEGIN):
            return self.probability(*gram[1:])
        *history, _ = gram
        total = self.totals[len(history)][tuple(history)]
        own = self._rest(gram) / total if total else 0.0
        return own + self.left(*history) * self.probability(*gram[1:])


def numbered(lexicon: Collection[str], letters: str = LETTERS) -> list[str]:
    """All words at the places of their numbers."""
    ordered = sorted(lexicon, key=lambda word: [letters.index(letter) for letter in word])
    return [BEGIN, END, UNKNOWN, *ordered]


def used(texts: Sequence[str]) -> set[str]:
    """The words of texts."""
    return {word for text in texts for word in text.split()}
