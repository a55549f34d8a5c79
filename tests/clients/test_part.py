"""What a client counts of a stream, and the words that it makes of messages, without a server."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest

from cortado.clients import words
from cortado.clients.part import Part, ReplayBuffer
from cortado.model.captions import Word
from cortado.server.protocol.messages import Chars, Endpoint, Final, Resume, Start, Text
from cortado.server.protocol.messages import Word as Said


def chars(text: str, *times: float) -> Chars:
    return Chars(text=text, times=list(times), confidences=[1.0] * len(text), position=times[-1])


def endpoint(number: int, position: float) -> Endpoint:
    return Endpoint(utterance=number, start=0.0, end=position, position=position)


def test_a_part_says_what_it_has_when_it_goes_on() -> None:
    part = Part(Start(keep=True))
    assert isinstance(part.hello, Start)
    part = replace(part, token="t")
    part.chars(chars("ab", 0.4, 0.8))
    part.endpoint(endpoint(0, 1.5))
    assert part.hello == Resume(token="t", characters=2, utterances=1)
    assert part.decided == 1.5


def test_a_following_part_counts_times_and_utterances_of_the_whole() -> None:
    part = Part(Start(keep=True))
    part.endpoint(endpoint(0, 1.0))
    part.chars(chars("ab", 1.6, 2.0))
    ending = part.cut()
    assert ending == Endpoint(utterance=1, start=1.6, end=2.0, position=2.0)
    assert part.cut() is None
    rest = part.following(32_000)
    assert not rest.resumable
    assert rest.decided == 2.0
    assert rest.chars(chars("c", 0.5)) == Chars(
        text=" c", times=[2.0, 2.5], confidences=[1.0] * 2, position=2.5
    )
    assert rest.chars(chars("d", 0.6)) == Chars(
        text="d", times=[2.6], confidences=[1.0], position=2.6
    )
    assert rest.characters == 2, "the server's own, without the space"
    assert rest.endpoint(endpoint(0, 1.0)).utterance == 2


def test_texts_and_the_words_of_the_end_have_the_times_of_the_whole() -> None:
    part = Part(Start(alternatives=2), base=16_000, first_utterance=3, utterances=1)
    texts = [Text(text="a", log_probability=-0.1), Text(text="b", log_probability=-2.0)]
    word = Said(text="a", start=0.5, end=0.6, confidence=0.9)
    ending = Endpoint(utterance=1, start=0.5, end=0.6, position=1.0, words=[word], texts=texts)
    assert part.endpoint(ending).texts == texts
    final = Final(text="a", times=[0.6], confidences=[0.9], duration=2.0, texts=texts)
    assert part.rest(final) is None
    rest = part.rest(final.model_copy(update={"words": [word]}))
    assert rest is not None
    assert (rest.utterance, rest.start, rest.end, rest.position) == (5, 1.5, 1.6, 3.0)
    assert (rest.words[0].start, rest.texts) == (1.5, texts)


def test_a_replay_buffer_gives_back_what_was_not_let_go() -> None:
    buffer = ReplayBuffer(10)
    buffer.append(b"abcdef")
    assert (buffer.read(12, 3), buffer.read(15, 9), buffer.read(16, 9)) == (b"cde", b"f", b"")
    buffer.release(13)
    buffer.release(11)
    assert (buffer.start, buffer.end, buffer.read(13, 9)) == (13, 16, b"def")
    buffer.release(99)
    assert buffer.start == buffer.end == 16


async def _said(messages: Sequence[Chars | Endpoint]) -> AsyncIterator[Chars | Endpoint]:
    for message in messages:
        yield message


SAID: list[Chars | Endpoint] = [
    chars("so ", 0.2, 0.4, 0.6),
    chars("b", 0.6),
    chars("e", 1.0),
    endpoint(0, 2.0),
    chars(" it", 3.0, 3.2, 3.4),
]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (SAID, [Word("so", 0.16, 0.4), Word("be", 0.56, 1.0), Word("it", 3.16, 3.4)]),
        (
            [chars("a", 0.4), endpoint(0, 1), chars("b", 0.42)],
            [Word("a", 0.36, 0.4), Word("b", 0.4, 0.42)],
        ),
        ([chars(" ", 0.2), endpoint(0, 1.0)], []),
    ],
)
def test_words_end_with_spaces_and_utterances(
    said: list[Chars | Endpoint], expected: list[Word]
) -> None:
    async def found() -> list[Word]:
        return [word async for word in words.words(_said(said))]

    assert asyncio.run(found()) == expected


def test_utterances_have_their_words() -> None:
    async def found() -> list[words.Utterance]:
        return [one async for one in words.utterances(_said(SAID))]

    first, last = asyncio.run(found())
    assert (first.text, first.start, first.end) == ("so be", 0.16, 1.0)
    assert (last.text, last.start, last.end) == ("it", 3.16, 3.4)
