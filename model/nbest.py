"""The likeliest texts of an utterance, made of its words and their alternatives."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from cortado.model.captions import Word

LEAST = 1e-4  # a confidence that is rounded to 0


class Text(NamedTuple):
    """One of the texts that an utterance may have."""

    words: tuple[Word, ...]  # with the times of the words that were written
    log_probability: float  # nats: the sum of those of its words, as if each was for itself

    def __str__(self) -> str:
        return " ".join(word.text for word in self.words)


class _Way(NamedTuple):
    """A way to choose the first words of an utterance."""

    log_probability: float
    word: Word  # the last of them
    before: "_Way | None"


def texts(words: Sequence[Word], most: int) -> list[Text]:
    """Return at most so many texts: the one that was written, then the others by probability."""
    if most < 1:
        return []
    others: list[_Way] = []  # each differs from what is written of the first words
    before: _Way | None = None
    for word in words:
        instead = [replace(word, text=a.text, confidence=a.confidence) for a in word.alternatives]
        ways = [_after(one, each) for one in others for each in (word, *instead)]
        ways += [_after(before, each) for each in instead]
        others = sorted(ways, key=lambda one: -one.log_probability)[: most - 1]
        before = _after(before, word)
    return [_text(one) for one in (before, *others)]


def _after(before: _Way | None, word: Word) -> _Way:
    least = math.log(max(word.confidence, LEAST))
    return _Way(least + (before.log_probability if before else 0.0), word, before)


def _text(way: _Way | None) -> Text:
    total, words = way.log_probability if way else 0.0, list[Word]()
    while way:
        words.append(way.word)
        way = way.before
    return Text(tuple(reversed(words)), round(total, 4))
