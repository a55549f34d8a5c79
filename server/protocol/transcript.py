"""The transcript of one stream, bounded however long the stream lasts."""

from array import array
from collections import deque
from typing import NamedTuple

from cortado.server.protocol.messages import (
    Chars,
    Endpoint,
    ErrorCode,
    Final,
    ProtocolError,
    Resume,
    Start,
)

ENDPOINTS = 1000  # that are remembered in case that a client missed them


class Transcript:
    """The last characters of a stream and their times, and where its utterances ended."""

    def __init__(self, max_characters: int, before: int = 0) -> None:
        """Hold `max_characters`, and up to an eighth more in between.

        `before` characters of the stream were sent earlier and are not here.
        """
        self.characters = before  # of the stream
        self._endpoints: deque[tuple[int, Endpoint]] = deque(maxlen=ENDPOINTS)  # characters before
        self._max_characters = max_characters
        self._text: list[str] = []  # characters, of which Python has one object each
        self._times = array("d")  # seconds

    def add(self, text: str, times: list[float]) -> None:
        """Add characters at the end; forget the first ones when there are too many."""
        self.characters += len(text)
        self._text.extend(text)
        self._times.extend(times)
        if len(self._text) > self._max_characters * 9 // 8:
            self._trim()

    def add_endpoint(self, endpoint: Endpoint) -> None:
        """Note the end of an utterance."""
        self._endpoints.append((self.characters, endpoint))

    @property
    def omitted(self) -> int:
        """The characters of the stream that are not here any more."""
        return self.characters - len(self._text)

    def since(self, characters: int, utterances: int, position: float) -> list[Chars | Endpoint]:
        """Return what came after so many characters and ends of utterances, in order.

        Args:
            characters: from `omitted` up to those of the stream.
            utterances: whose ends are known.
            position: seconds of audio that the characters rest on.
        """
        found: list[Chars | Endpoint] = []
        for place, endpoint in self._endpoints:
            if endpoint.utterance >= utterances:
                found += [*self._between(characters, place, position), endpoint]
                characters = max(characters, place)
        return found + self._between(characters, self.characters, position)

    def _between(self, first: int, last: int, position: float) -> list[Chars | Endpoint]:
        if first >= last:
            return []
        part = slice(first - self.omitted, last - self.omitted)
        times = self._times[part].tolist()
        return [Chars(text="".join(self._text[part]), times=times, position=position)]

    def _trim(self) -> None:
        del self._text[: -self._max_characters]
        del self._times[: -self._max_characters]

    def final(self, duration: float) -> Final:
        """Return the message that ends a stream of that many seconds."""
        self._trim()
        return Final(
            text="".join(self._text),
            times=self._times.tolist(),
            duration=duration,
            omitted=self.omitted,
        )


class ResumePoint(NamedTuple):
    """Where a stream goes on over another connection."""

    start: Start
    received: int  # samples, at the rate of `start`
    transcript: Transcript
    position: float  # seconds of audio that the transcript rests on

    def check(self, resume: Resume) -> None:
        """Make sure that what a client has missed is here.

        Raises:
            ProtocolError: it is not.
        """
        first, last = self.transcript.omitted, self.transcript.characters
        if resume.token is not None and not first <= resume.characters <= last:
            message = f"expected from {first} to {last} characters, got {resume.characters}"
            raise ProtocolError(ErrorCode.INVALID_STATE, message)

    def missed(self, resume: Resume) -> list[Chars | Endpoint]:
        """Return what a client has missed that resumes by token; by state it has missed nothing."""
        if resume.token is None:
            return []
        return self.transcript.since(resume.characters, resume.utterances, self.position)
