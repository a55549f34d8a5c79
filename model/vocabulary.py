"""The symbols that the recogniser writes: characters, or phones with spaces between."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

ENGLISH = " 'abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Vocabulary:
    """An ordered set of characters or, where they are given, of phones; a symbol is an index in it.

    The CTC blank and the decoder's start symbol share the index after the last: neither is ever
    written. With monotonic attention there is no end-of-sequence symbol: an utterance ends when its
    audio ends, in training (the scan for one more symbol must run off the end) as in serving. Other
    attentions write an end of sequence, which has that index, too.
    """

    characters: str = ENGLISH
    phones: tuple[str, ...] = ()  # in place of the characters, of any length

    def __post_init__(self) -> None:
        if len(set(self.characters)) != len(self.characters) or not self.characters:
            raise ValueError(f"expected distinct characters, at least one, got {self.characters!r}")
        whole = all(phone.split() == [phone] for phone in self.phones)
        if len(set(self.phones)) != len(self.phones) or not whole:
            raise ValueError(f"expected distinct phones without spaces, got {self.phones!r}")

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The characters or phones in order."""
        return self.phones or (*self.characters,)

    @property
    def separator(self) -> str:
        """The text between two symbols: a space between phones, nothing between characters."""
        return " " if self.phones else ""

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The text of each symbol in a stream, the separator after it included."""
        return tuple(name + self.separator for name in self.names)

    @cached_property
    def spaced(self) -> bool:
        """Whether spaces are written."""
        return any(" " in text for text in self.texts)

    @property
    def blank(self) -> int:
        """The index of the CTC blank, and of the decoder's start symbol."""
        return len(self)

    def spells(self, text: str) -> bool:
        """Return whether all characters or phones of `text` are in the vocabulary."""
        return self._indices.keys() >= {*self._parts(text)}

    def encode(self, text: str) -> list[int]:
        """Return the symbols of `text`.

        Raises: ValueError where a character or phone is not in the vocabulary.
        """
        parts = self._parts(text)
        unknown = [part for part in parts if part not in self._indices]
        if unknown:
            known = " ".join(self.phones) or self.characters
            kind = "phones" if self.phones else "characters"
            raise ValueError(f"expected {kind} among {known!r}, got {unknown[0]!r}")
        return [self._indices[part] for part in parts]

    def decode(self, symbols: Iterable[int]) -> str:
        """Return the text that `symbols` spell."""
        return self.separator.join(self.names[symbol] for symbol in symbols)

    def _parts(self, text: str) -> list[str]:
        return text.split() if self.phones else [*text]

    @cached_property
    def _indices(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.names)}
