"""The characters that the recogniser writes."""

from collections.abc import Iterable
from dataclasses import dataclass

ENGLISH = " 'abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Vocabulary:
    """An ordered set of characters; a symbol is a character's index in it.

    The CTC blank and the decoder's start symbol share the index after the last character: neither
    is ever written. With monotonic attention there is no end-of-sequence symbol: an utterance ends
    when its audio ends, in training (the scan for one more symbol must run off the end) as in
    serving. Other attentions write an end of sequence, which has that index, too.
    """

    characters: str = ENGLISH

    def __post_init__(self) -> None:
        if len(set(self.characters)) != len(self.characters) or not self.characters:
            raise ValueError(f"expected distinct characters, at least one, got {self.characters!r}")

    def __len__(self) -> int:
        return len(self.characters)

    @property
    def blank(self) -> int:
        """The index of the CTC blank, and of the decoder's start symbol."""
        return len(self.characters)

    def encode(self, text: str) -> list[int]:
        """Return the symbols of `text`.

        Raises:
            ValueError: a character is not in the vocabulary.
        """
        indices = [self.characters.find(character) for character in text]
        if -1 in indices:
            unknown = text[indices.index(-1)]
            raise ValueError(f"expected characters among {self.characters!r}, got {unknown!r}")
        return indices

    def decode(self, symbols: Iterable[int]) -> str:
        """Return the text that `symbols` spell."""
        return "".join(self.characters[symbol] for symbol in symbols)
