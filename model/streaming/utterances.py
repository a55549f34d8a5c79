"""A stream's characters, parted into utterances where these end."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cortado.model.streaming.stream import Character

SPACE = " "


@dataclass(frozen=True)
class Endpoint:
    """The end of an utterance."""

    utterance: int  # the stream's first is 0
    start: float  # seconds: the time of its first character
    end: float  # seconds: the time of its last character


class Utterances:
    """What one stream has said so far, in constant memory."""

    def __init__(self, spaced: bool) -> None:
        """Begin a stream in a vocabulary that has a space or not."""
        self.count = 0  # utterances that have ended
        self.characters = 0  # told so far
        self._spaced = spaced
        self._start: float | None = None  # of the utterance that goes on, if it has a character
        self._end = 0.0
        self._last = SPACE  # character of the stream; at its beginning no space is missed

    def hear(
        self, characters: Sequence["Character"], ended: bool
    ) -> tuple[list["Character"], Endpoint | None]:
        """Return the characters of a step as they are told, and the endpoint after them.

        An utterance begins a word. A decoder that begins it anew does not write the space before
        it, so it is put there, at its first character's time: told one after another, characters
        are the text.
        """
        told = list(characters)
        if told and self._start is None:
            if self._spaced and self._last != SPACE != told[0].text:
                told.insert(0, replace(told[0], text=SPACE))
            self._start = told[0].time
        self.characters += len(told)
        if told:
            self._last, self._end = told[-1].text, told[-1].time
        if not ended or self._start is None:
            return told, None
        endpoint = Endpoint(self.count, self._start, self._end)
        self.count, self._start = self.count + 1, None
        return told, endpoint

    def suspend(self) -> list[Any]:
        """Return what `resume` takes, of what JSON can hold."""
        return [self.count, self.characters, self._start, self._end, self._last]

    def resume(self, kept: list[Any]) -> None:
        """Go on where `suspend` was called."""
        self.count, self.characters, self._start, self._end, self._last = kept
