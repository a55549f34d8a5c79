"""The transcript of one stream, bounded however long the stream lasts."""

from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, NamedTuple

from cortado.model.captions import Placed, words_of
from cortado.model.nbest import texts
from cortado.server.protocol.messages import (
    Chars,
    Endpoint,
    ErrorCode,
    Final,
    ProtocolError,
    Resume,
    Start,
    Text,
    Word,
)

ENDPOINTS = 1000  # that a client which comes back can still get
PIECE = 4096  # characters of a message to such a client: it takes a few ms to make
SHARES = 1000  # confidences are held in thousandths


class Ended(NamedTuple):
    """An utterance that has ended: the characters from `first` up to `last` of the stream."""

    first: int
    last: int
    endpoint: Endpoint  # without its words, which the characters give


class Transcript:
    """The last characters of a stream with their times, and the ends of its utterances."""

    def __init__(self, max_characters: int, before: int = 0, alternatives: int = 0) -> None:
        """Begin a transcript of at most `max_characters`, for short times an eighth more.

        The stream already has `before` characters, which are not in it. An utterance has at most
        `alternatives` texts.
        """
        self.characters = before  # of the stream
        self._begun = before  # characters of the stream before the utterance that goes on
        self._ended: deque[Ended] = deque(maxlen=ENDPOINTS)
        self._max_characters = max_characters
        self._text: list[str] = []  # characters, of which Python has one object each
        self._times = array("d")  # seconds
        self._confidences = array("H")
        self._most_texts = alternatives
        self._alternatives: dict[int, Sequence[tuple[str, float]]] = {}  # by the end of the word

    def state(self) -> tuple[dict[str, Any], list[bytes]]:
        """Return what `restored` reads: facts for JSON, and what would be long in it."""
        ended = [
            (one.first, one.last, at.utterance, at.start, at.end, at.position)
            for one in self._ended
            for at in [one.endpoint]
        ]
        facts = {
            "characters": self.characters,
            "begun": self._begun,
            "ended": ended,
            "texts": self._most_texts,
            "alternatives": list(self._alternatives.items()),
        }
        text = "".join(self._text).encode()
        return facts, [text, self._times.tobytes(), self._confidences.tobytes()]

    @classmethod
    def restored(
        cls, facts: dict[str, Any], parts: list[bytes], max_characters: int
    ) -> "Transcript":
        """Return the transcript of a `state`, of a process with the same byte order."""
        text = parts[0].decode()
        found = cls(max_characters, facts["characters"] - len(text), facts["texts"])
        found._alternatives = {
            end: [(other, share) for other, share in pairs] for end, pairs in facts["alternatives"]
        }
        found.characters, found._begun = facts["characters"], facts["begun"]
        found._text = list(text)
        found._times.frombytes(parts[1])
        found._confidences.frombytes(parts[2])
        for first, last, utterance, start, end, position in facts["ended"]:
            endpoint = Endpoint(utterance=utterance, start=start, end=end, position=position)
            found._ended.append(Ended(first, last, endpoint))
        return found

    def add(
        self,
        text: str,
        times: list[float],
        confidences: list[float],
        alternatives: Placed = (),
    ) -> None:
        """Add characters at the end; forget the first ones when there are too many."""
        for end, others in alternatives:
            self._alternatives[self.characters + end] = others
        self.characters += len(text)
        self._text.extend(text)
        self._times.extend(times)
        self._confidences.extend(round(SHARES * one) for one in confidences)
        if len(self._text) > self._max_characters * 9 // 8:
            self._trim()

    def add_endpoint(self, endpoint: Endpoint) -> Endpoint:
        """Add the end of an utterance; return it with its words."""
        ended = Ended(self._begun, self.characters, endpoint)
        self._ended.append(ended)
        self._begun = self.characters
        return self._with_words(ended)

    def end_utterance(self) -> tuple[list[Word], list[Text] | None]:
        """End the utterance that goes on, for whatever reason; return its words and texts."""
        found = self._words_and_texts(self._begun, self.characters)
        self._begun = self.characters
        return found

    @property
    def omitted(self) -> int:
        """The number of characters that were dropped from the beginning."""
        return self.characters - len(self._text)

    def since(
        self, characters: int, utterances: int, position: float
    ) -> Iterator[Chars | Endpoint]:
        """Return the messages after so many characters and utterances, in order.

        Each is made when it is asked for, as all together may take seconds. They are those of now,
        whatever is added or forgotten meanwhile.

        Args:
            characters: that the client has; at least `omitted`.
            utterances: that the client has the ends of.
            position: seconds of audio that the characters depend on.
        """
        return self._frozen()._since(characters, utterances, position)

    def _frozen(self) -> "Transcript":
        """Return the transcript as it is now, which nothing is added to."""
        found = copy(self)
        found._ended, found._text = self._ended.copy(), self._text.copy()
        found._times, found._confidences = self._times[:], self._confidences[:]
        found._alternatives = self._alternatives.copy()
        return found

    def _since(
        self, characters: int, utterances: int, position: float
    ) -> Iterator[Chars | Endpoint]:
        for ended in self._ended:
            if ended.endpoint.utterance >= utterances:
                yield from self._pieces(characters, ended.last, position)
                yield self._with_words(ended)
                characters = max(characters, ended.last)
        yield from self._pieces(characters, self.characters, position)

    def _pieces(self, first: int, last: int, position: float) -> Iterator[Chars]:
        for begin in range(first, last, PIECE):
            yield from self._between(begin, min(begin + PIECE, last), position)

    def _between(self, first: int, last: int, position: float) -> list[Chars]:
        """Return the characters from one place of the stream up to another as a message."""
        first = max(first, self.omitted)
        if first >= last:
            return []
        part = slice(first - self.omitted, last - self.omitted)
        confidences = [one / SHARES for one in self._confidences[part]]
        text, times = "".join(self._text[part]), self._times[part].tolist()
        return [Chars(text=text, times=times, confidences=confidences, position=position)]

    def _words_and_texts(self, first: int, last: int) -> tuple[list[Word], list[Text] | None]:
        """Return the words from one place of the stream up to another, and their texts if asked."""
        characters = [one for text in self._between(first, last, 0.0) for one in text.characters()]
        words = words_of(characters, self._alternatives, max(first, self.omitted))
        found = [
            Text(text=str(one), log_probability=one.log_probability)
            for one in texts(words, self._most_texts)
        ]
        return [Word.of(word) for word in words], found or None

    def _with_words(self, ended: Ended) -> Endpoint:
        words, found = self._words_and_texts(ended.first, ended.last)
        return ended.endpoint.model_copy(update={"words": words, "texts": found})

    def _trim(self) -> None:
        for held in (self._text, self._times, self._confidences):
            del held[: -self._max_characters]
        for end in [end for end in self._alternatives if end <= self.omitted]:
            del self._alternatives[end]

    def final(self, duration: float) -> Final:
        """Return the message that ends a stream of that many seconds."""
        self._trim()
        words, found = self.end_utterance()
        return Final(
            text="".join(self._text),
            times=self._times.tolist(),
            confidences=[one / SHARES for one in self._confidences],
            duration=duration,
            omitted=self.omitted,
            words=words,
            texts=found,
        )


class ResumePoint(NamedTuple):
    """Where a stream goes on over another connection."""

    start: Start
    received: int  # samples, at the rate of `start`
    transcript: Transcript
    position: float  # seconds of audio that the transcript rests on
    is_whole: bool = True  # nothing was sent that is not in the transcript

    def check(self, resume: Resume) -> None:
        """Check that all that a client has missed is still in the transcript.

        Raises: ProtocolError if it is not.
        """
        first, last = self.transcript.omitted, self.transcript.characters
        if not self.is_whole:  # the client may have more, which will be written again
            last = max(last, resume.characters)
        if resume.token is not None and not first <= resume.characters <= last:
            message = f"expected from {first} to {last} characters, got {resume.characters}"
            raise ProtocolError(ErrorCode.INVALID_STATE, message)

    def missed(self, resume: Resume) -> Iterator[Chars | Endpoint]:
        """Return what a client has missed that resumes by token; by state it has missed nothing."""
        if resume.token is None:
            return iter(())
        return self.transcript.since(resume.characters, resume.utterances, self.position)
