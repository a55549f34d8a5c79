"""Words as every door sends them."""

from collections.abc import Sequence
from typing import Self

from pydantic import BaseModel

from cortado.model.captions import Word


class SentWord(BaseModel):
    """A word with its times in seconds: what every door sends of it."""

    word: str
    start: float
    end: float

    @classmethod
    def of(cls, word: Word, **more: float) -> Self:
        """Return a word of ours, with `more` fields of a door's own."""
        return cls(word=word.text, start=word.start, end=word.end, **more)


def text_of(words: Sequence[Word]) -> str:
    """Return words as text."""
    return " ".join(word.text for word in words)


def confidence_of(words: Sequence[Word]) -> float:
    """Return the mean confidence of words; 0 for none."""
    return round(sum(word.confidence for word in words) / max(len(words), 1), 4)
