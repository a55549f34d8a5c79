"""A text that grows: joined, its deltas are the whole text, which begins and ends with a letter."""

from collections.abc import Iterable

from cortado.model.emission import Character


class Deltas:
    """The characters of a text that may be sent; spaces wait for the letter behind them."""

    def __init__(self) -> None:
        self.begun = False  # it has a letter
        self._waiting: list[Character] = []

    def take(self, characters: Iterable[Character]) -> list[Character]:
        """Return what more may be sent with these characters, which may be nothing."""
        self._waiting += characters
        letters = [k for k, one in enumerate(self._waiting) if not one.text.isspace()]
        if not letters:
            return []
        first, end = 0 if self.begun else letters[0], letters[-1] + 1
        found, self._waiting, self.begun = self._waiting[first:end], self._waiting[end:], True
        return found
