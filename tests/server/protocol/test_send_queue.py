"""What waits for one client."""

from collections.abc import Iterator

import pytest

from cortado.server.protocol.messages import (
    Chars,
    Endpoint,
    ErrorCode,
    Final,
    ProtocolError,
    Ready,
)
from cortado.server.protocol.send_queue import SendQueue

READY = Ready(
    session="1", model="m", sample_rate=16_000, encoding="pcm_s16le", step_ms=40, lookahead_ms=110
)


def chars(text: str, at: float) -> Chars:
    return Chars(text=text, times=[at] * len(text), confidences=[1.0] * len(text), position=at)


def test_messages_leave_in_order() -> None:
    queue = SendQueue(10)
    messages = [READY, chars("a", 1), Final(text="a", times=[1], confidences=[1.0], duration=2)]
    for message in messages:
        queue.add(message)  # type: ignore[arg-type]
    assert [queue.pop() for _ in range(4)] == [*messages, None]


def test_characters_that_wait_become_one_message() -> None:
    queue = SendQueue(10)
    queue.add(chars("he", 1))
    queue.add(chars("y", 2))
    assert queue.pop() == Chars(text="hey", times=[1, 1, 2], confidences=[1.0] * 3, position=2)
    queue.add(chars("!", 3))
    assert queue.pop() == chars("!", 3)


def test_more_characters_than_allowed_are_refused_and_the_others_kept() -> None:
    queue = SendQueue(3)
    queue.add(chars("abc", 1))
    with pytest.raises(ProtocolError) as caught:
        queue.add(chars("d", 2))
    assert caught.value.code == ErrorCode.SLOW_CLIENT
    assert queue.pop() == chars("abc", 1)


def test_characters_of_several_utterances_are_counted_together() -> None:
    queue = SendQueue(3)
    queue.add(chars("ab", 1))
    queue.add(Endpoint(utterance=0, start=1, end=1, position=2))
    queue.add(chars("c", 3))
    with pytest.raises(ProtocolError):
        queue.add(chars("d", 4))
    assert queue.pop() == chars("ab", 1)
    queue.add(chars("de", 5))
    assert [type(message) for message in iter(queue.pop, None)] == [Endpoint, Chars]


def test_what_a_client_missed_is_made_in_its_turn_and_not_counted() -> None:
    queue, made = SendQueue(3), list[float]()

    def missed() -> Iterator[Chars]:
        for at in (1.0, 2.0):
            made.append(at)
            yield chars("abcd", at)

    queue.add(READY)
    queue.add_missed(missed())
    queue.add(chars("efg", 3))
    with pytest.raises(ProtocolError):
        queue.add(chars("h", 4))
    assert made == []
    assert [queue.pop(), queue.pop()] == [READY, chars("abcd", 1)]
    assert made == [1]
    assert list(iter(queue.pop, None)) == [chars("abcd", 2), chars("efg", 3)]
    assert not queue
