"""The times of a stream that was flushed: the engine begins a new stream there, from 0 on."""

from dataclasses import replace

from cortado.model.streaming.update import Update
from cortado.model.streaming.utterances import SPACE


class Timeline:
    """Where the engine's stream lies in the client's."""

    def __init__(self, *, spaced: bool) -> None:
        """Begin where both begin; `spaced` is whether words of the vocabulary have spaces."""
        self._spaced = spaced
        self._seconds = 0.0  # of the client's stream before the engine's
        self._utterances = 0  # before the engine's stream
        self._ended = 0  # utterances so far
        self._open = False  # characters have come since the last utterance ended
        self._is_joined = True  # the next character needs no space before it
        self._last = ""  # character

    def restart(self, seconds: float) -> None:
        """Begin the engine's next stream after so many seconds of the client's."""
        self._seconds = seconds
        self._ended += self._open
        self._utterances, self._open = self._ended, False
        self._is_joined = not self._spaced or self._last in ("", SPACE)

    def place(self, update: Update) -> Update:
        """Return the engine's update with the times and numbers of the client's stream."""
        update = update.within_input()
        if update.characters:
            self._open, self._last = True, update.characters[-1].text
        if update.endpoint:
            self._ended = self._utterances + update.endpoint.utterance + 1
            self._open = False
        return self._moved(update) if self._seconds else update

    def _moved(self, update: Update) -> Update:
        characters = [replace(one, time=self._at(one.time)) for one in update.characters]
        alternatives = update.alternatives
        if characters and not self._is_joined:
            self._is_joined = True
            if characters[0].text != SPACE:
                characters.insert(0, replace(characters[0], text=SPACE))
                alternatives = [one._replace(end=one.end + 1) for one in alternatives]
        ended = update.endpoint
        if ended is not None:
            number = self._utterances + ended.utterance
            ended = replace(
                ended, utterance=number, start=self._at(ended.start), end=self._at(ended.end)
            )
        position = self._at(update.position)
        return update._replace(
            characters=characters, position=position, endpoint=ended, alternatives=alternatives
        )

    def _at(self, seconds: float) -> float:
        return round(self._seconds + seconds, 3)
