"""What waits for one client."""

import pytest

from cortado.server.outbox import Outbox
from cortado.server.protocol.messages import (
    Chars,
    Endpoint,
    ErrorCode,
    Final,
    ProtocolError,
    Ready,
)

READY = Ready(
    session="1", model="m", sample_rate=16_000, encoding="pcm_s16le", step_ms=40, lookahead_ms=110
)


def chars(text: str, at: float) -> Chars:
    return Chars(text=text, times=[at] * len(text), position=at)


def test_messages_leave_in_order() -> None:
    outbox = Outbox(10)
    messages = [READY, chars("a", 1), Final(text="a", times=[1], duration=2)]
    for message in messages:
        outbox.add(message)  # type: ignore[arg-type]
    assert [outbox.take() for _ in range(4)] == [*messages, None]


def test_characters_that_wait_become_one_message() -> None:
    outbox = Outbox(10)
    outbox.add(chars("he", 1))
    outbox.add(chars("y", 2))
    assert outbox.take() == Chars(text="hey", times=[1, 1, 2], position=2)
    outbox.add(chars("!", 3))
    assert outbox.take() == chars("!", 3)


def test_more_characters_than_allowed_are_refused_and_the_others_kept() -> None:
    outbox = Outbox(3)
    outbox.add(chars("abc", 1))
    with pytest.raises(ProtocolError) as caught:
        outbox.add(chars("d", 2))
    assert caught.value.code == ErrorCode.SLOW_CLIENT
    assert outbox.take() == chars("abc", 1)


def test_characters_of_several_utterances_are_counted_together() -> None:
    outbox = Outbox(3)
    outbox.add(chars("ab", 1))
    outbox.add(Endpoint(utterance=0, start=1, end=1, position=2))
    outbox.add(chars("c", 3))
    with pytest.raises(ProtocolError):
        outbox.add(chars("d", 4))
    assert outbox.take() == chars("ab", 1)
    outbox.add(chars("de", 5))
    assert [type(message) for message in iter(outbox.take, None)] == [Endpoint, Chars]
