"""Characters, words and utterances of a stream's messages, each as soon as it is complete."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

from cortado.model.captions import Word
from cortado.model.emission import Character
from cortado.server.protocol.messages import Chars, Endpoint, Text
from cortado.server.protocol.words import Segment

Messages = AsyncIterator[Chars | Endpoint]


@dataclass(frozen=True)
class Utterance:
    """What was said between two pauses."""

    words: tuple[Word, ...]
    texts: tuple[Text, ...] = ()  # what was written, then others, where alternatives are asked for

    @property
    def text(self) -> str:
        """Its words, with a space between."""
        return " ".join(word.text for word in self.words)

    @property
    def start(self) -> float:
        """The seconds at which its first word begins."""
        return self.words[0].start

    @property
    def end(self) -> float:
        """The seconds at which its last word ends."""
        return self.words[-1].end


async def characters(messages: Messages) -> AsyncIterator[Character]:
    """Yield the characters of messages, the spaces among them."""
    async for message in messages:
        if isinstance(message, Chars):
            for character in message.characters():
                yield character


async def words(messages: Messages) -> AsyncIterator[Word]:
    """Yield words: one is complete with the space after it, or with its utterance."""
    async for found in _words_and_ends(messages):
        if isinstance(found, Word):
            yield found


async def utterances(messages: Messages) -> AsyncIterator[Utterance]:
    """Yield utterances that have any word."""
    spelt: list[Word] = []
    async for found in _words_and_ends(messages):
        if isinstance(found, Word):
            spelt.append(found)
        elif spelt:
            yield _utterance(spelt, found)
            spelt = []


def _utterance(words: Sequence[Word], end: Endpoint | None) -> Utterance:
    """Return an utterance, with the alternatives that came with its end."""
    if end is None or len(end.words) != len(words):  # it was cut
        return Utterance(tuple(words))
    found = (
        replace(word, alternatives=sent.others) for word, sent in zip(words, end.words, strict=True)
    )
    return Utterance(tuple(found), tuple(end.texts or ()))


async def _words_and_ends(messages: Messages) -> AsyncIterator[Word | Endpoint | None]:
    """Yield words, and the end of each utterance, which is None for one that was not told."""
    segment = Segment()
    failure: Exception | None = None
    try:
        async for message in messages:
            if isinstance(message, Endpoint):
                for word in segment.take():
                    yield word
                yield message
                continue
            segment.add(message)
            for word in segment.take_complete():
                yield word
    except Exception as error:
        failure = error  # raised once what came before is told
    for word in segment.take():
        yield word
    yield None
    if failure:
        raise failure
