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


def texts(words: Sequence[Word], most: int) -> list[Text]:
    """Return at most so many texts: the one that was written, then the others by probability."""
    if most < 1:
        return []
    written = _text(tuple(words))
    others: list[Text] = []  # each differs from what is written of the first words
    before: tuple[Word, ...] = ()
    for word in words:
        instead = [replace(word, text=a.text, confidence=a.confidence) for a in word.alternatives]
        others = [_text((*one.words, each)) for one in others for each in (word, *instead)]
        others += [_text((*before, each)) for each in instead]
        others = sorted(others, key=lambda one: -one.log_probability)[: most - 1]
        before = (*before, word)
    return [written, *others]


def _text(words: tuple[Word, ...]) -> Text:
    found = sum(math.log(max(word.confidence, LEAST)) for word in words)
    return Text(words, round(found, 4))
