"""What a client holds of a stream, so that it can go on over another connection.

A stream is one part as its server counts it, or several where a server could not go on with the one
before: each begins at a sample of the whole. The page does the same (clients/web/part.js).
"""

from dataclasses import dataclass

from cortado.server.protocol.messages import Chars, Endpoint, Final, Resume, Start, Word


@dataclass
class Part:
    """One stream as its server counts it."""

    start: Start
    base: int = 0  # the sample of the whole at which it begins
    token: str | None = None  # opens it again if its connection is lost
    state: str | None = None  # the stream itself, where it was suspended
    characters: int = 0  # that came
    first_utterance: int = 0  # the number of its first utterance in the whole
    utterances: int = 0  # whose ends came
    decided: float = 0.0  # seconds of the whole up to which all characters have come
    utterance_start: float | None = None  # of the utterance that has begun, where one has

    @property
    def resumable(self) -> bool:
        """Whether a server may still have it."""
        return self.token is not None or self.state is not None

    @property
    def hello(self) -> Start | Resume:
        """The first message of a connection that begins it or goes on with it."""
        encoding, keep = self.start.encoding, self.start.keep
        if self.state is not None:
            return Resume(state=self.state, encoding=encoding, keep=keep)
        if self.token is not None:
            return Resume(token=self.token, characters=self.characters, utterances=self.utterances)
        return self.start

    def chars(self, message: Chars) -> Chars:
        """Count characters that came; return them with times of the whole."""
        text, times = message.text, [self._moved(time) for time in message.times]
        sure = message.confidences
        if self.base and not self.characters and text and not text.startswith(" "):
            # what came before has ended
            text, times, sure = f" {text}", [self.decided, *times], [sure[0], *sure]
        self.characters += len(message.text)
        if times:
            self.decided = times[-1]
            self.utterance_start = (
                times[0] if self.utterance_start is None else self.utterance_start
            )
        position = self._moved(message.position)
        return Chars(text=text, times=times, confidences=sure, position=position)

    def endpoint(self, message: Endpoint) -> Endpoint:
        """Count the end of an utterance; return it with its number and times of the whole."""
        self.utterances = message.utterance + 1
        start, end = self._moved(message.start), self._moved(message.end)
        self.decided, self.utterance_start = self._moved(message.position), None
        number = self.first_utterance + message.utterance
        words = [self._moved_word(word) for word in message.words]
        return Endpoint(
            utterance=number,
            start=start,
            end=end,
            position=self.decided,
            words=words,
            texts=message.texts,
        )

    def rest(self, message: Final) -> Endpoint | None:
        """Return the end of the utterance that `final` has ended, where one has begun."""
        if not message.words:
            return None
        words = [self._moved_word(word) for word in message.words]
        return Endpoint(
            utterance=self.first_utterance + self.utterances,
            start=words[0].start,
            end=words[-1].end,
            position=self._moved(message.duration),
            words=words,
            texts=message.texts,
        )

    def cut(self) -> Endpoint | None:
        """Return the end of an utterance that its server cannot go on with, where one has begun."""
        if self.utterance_start is None:
            return None
        start, end = self.utterance_start, self.decided
        number = self.first_utterance + self.utterances
        self.utterances, self.utterance_start = self.utterances + 1, None
        return Endpoint(utterance=number, start=start, end=end, position=end)

    def following(self, base: int) -> "Part":
        """Return the part that begins after it, at a sample of the whole."""
        first = self.first_utterance + self.utterances
        decided = base / self.start.sample_rate
        return Part(self.start, base, first_utterance=first, decided=decided)

    def _moved_word(self, word: Word) -> Word:
        start, end = self._moved(word.start), self._moved(word.end)
        return word.model_copy(update={"start": start, "end": end})

    def _moved(self, seconds: float) -> float:
        return round(seconds + self.base / self.start.sample_rate, 3) if self.base else seconds


class ReplayBuffer:
    """The last audio of a stream, so that it can be sent again; places are bytes of the whole."""

    def __init__(self, start: int = 0) -> None:
        self.start = start  # the first byte that is still here
        self._data = bytearray()

    @property
    def end(self) -> int:
        """The place of the byte that comes next."""
        return self.start + len(self._data)

    def append(self, data: bytes) -> None:
        """Add audio at the end."""
        self._data += data

    def read(self, at: int, most: int) -> bytes:
        """Return up to `most` bytes from a place on."""
        return bytes(self._data[at - self.start : at - self.start + most])

    def release(self, at: int) -> None:
        """Let go of what lies before a place."""
        count = min(max(at - self.start, 0), len(self._data))
        del self._data[:count]
        self.start += count
