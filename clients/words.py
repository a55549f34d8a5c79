"""Characters, words and utterances of a stream's messages, each as soon as it is complete."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from cortado.model.captions import Word, words_of
from cortado.model.emission import Character
from cortado.server.protocol.messages import Chars, Endpoint

Messages = AsyncIterator[Chars | Endpoint]


@dataclass(frozen=True)
class Utterance:
    """What was said between two pauses."""

    words: tuple[Word, ...]

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
    async for word in _words_and_ends(messages):
        if word is not None:
            yield word


async def utterances(messages: Messages) -> AsyncIterator[Utterance]:
    """Yield utterances that have any word."""
    found: list[Word] = []
    async for word in _words_and_ends(messages):
        if word is not None:
            found.append(word)
        elif found:
            yield Utterance(tuple(found))
            found = []


async def _words_and_ends(messages: Messages) -> AsyncIterator[Word | None]:
    """Yield words, and None at the end of each utterance."""
    spelt, end = list[Character](), 0.0

    def complete() -> list[Word]:
        nonlocal end
        found = [replace(word, start=max(word.start, end)) for word in words_of(spelt)]
        end = found[-1].end if found else end
        spelt.clear()
        return found

    async for message in messages:
        if isinstance(message, Endpoint):
            for word in complete():
                yield word
            yield None
            continue
        for character in message.characters():
            spelt.append(character)
            if character.text.isspace():
                for word in complete():
                    yield word
    for word in complete():
        yield word
    yield None
