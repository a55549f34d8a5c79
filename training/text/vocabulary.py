"""Words and their indices: the most frequent ones, and those of one source that a copy may name."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

UNKNOWN = 0  # index of the word that stands for all others
UNKNOWN_WORD = "<unk>"


@dataclass(frozen=True)
class Words:
    """V words, the unknown one first; index V is the decoder's start and end.

    Words that it lacks and a source has are numbered from V + 1 on, for that source alone.
    """

    words: tuple[str, ...]

    @staticmethod
    def of(texts: Iterable[Sequence[str]], most: int) -> "Words":
        """Return the most frequent words of texts, `most` with the unknown one."""
        counts = Counter(word for text in texts for word in text)
        counts.pop(UNKNOWN_WORD, None)  # some corpora write it themselves
        ranked = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
        return Words((UNKNOWN_WORD, *(word for word, _ in ranked[: most - 1])))

    def __len__(self) -> int:
        """V."""
        return len(self.words)

    @cached_property
    def _indices(self) -> dict[str, int]:
        return {word: index for index, word in enumerate(self.words)}

    def encode(self, text: Iterable[str], extra: Sequence[str] = ()) -> list[int]:
        """Return the words' indices, those of `extra` from V + 1 on, others as unknown."""
        new = {word: len(self) + 1 + place for place, word in enumerate(extra)}
        return [self._indices.get(word, new.get(word, UNKNOWN)) for word in text]

    def lacking(self, text: Iterable[str]) -> tuple[str, ...]:
        """Return the words of a text that are unknown, each once."""
        return tuple(dict.fromkeys(word for word in text if word not in self._indices))

    def decode(self, indices: Iterable[int], extra: Sequence[str] = ()) -> list[str]:
        """Return the words of indices, none of which is the end."""
        size = len(self)
        return [self.words[k] if k < size else extra[k - size - 1] for k in indices]
