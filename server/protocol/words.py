"""The characters of a stream as words with times, gathered until they are passed on."""

from collections.abc import Sequence
from dataclasses import replace

from cortado.model.captions import Word, words_of
from cortado.model.emission import Character
from cortado.server.protocol.messages import TimedText
from cortado.server.protocol.messages import Word as Sent

LONGEST_WORD = 1000  # characters, after which a word counts as complete: no space may ever come


class Segment:
    """Characters that were not passed on yet."""

    def __init__(self) -> None:
        self._characters: list[Character] = []
        self._passed = 0.0  # seconds: the end of the last word that was

    def __bool__(self) -> bool:
        """Return whether there is a word."""
        return any(not one.text.isspace() for one in self._characters)

    def add(self, message: TimedText) -> None:
        """Add characters."""
        self._characters += message.characters()

    @property
    def words(self) -> list[Word]:
        """The words; the last may go on."""
        found = list(words_of(self._characters))
        if found:
            found[0] = replace(found[0], start=max(found[0].start, self._passed))
        return found

    def take(self, sent: Sequence[Sent] = ()) -> list[Word]:
        """Pass all words on, with the alternatives of those that the protocol has `sent`."""
        words = self._take(len(self._characters))
        if len(sent) != len(words):  # they are those of a longer time
            return words
        return [
            replace(word, alternatives=one.others) for word, one in zip(words, sent, strict=True)
        ]

    def take_complete(self, seconds: float = 0) -> list[Word]:
        """Pass on the words that are complete, if they last so long; otherwise none."""
        spaces = (place for place, one in enumerate(self._characters) if one.text.isspace())
        count = max(spaces, default=0)
        if len(self._characters) > count + LONGEST_WORD:
            count = len(self._characters)
        if not count:
            return []
        lasted = self._characters[count - 1].time - self._characters[0].time
        return self._take(count) if lasted >= seconds else []

    def _take(self, count: int) -> list[Word]:
        rest = self._characters[count:]
        del self._characters[count:]
        found, self._characters = self.words, rest
        if found:
            self._passed = found[-1].end
        return found
