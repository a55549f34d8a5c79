"""How long a client may keep silent, and how long it may leave a message unread."""

from collections.abc import Callable

import pytest

from cortado.server.protocol.deadlines import Deadlines
from cortado.server.protocol.limits import Limits
from cortado.server.protocol.messages import ErrorCode

LONG = 1000.0  # seconds


def given_up(prepare: Callable[[Deadlines], None], **limits: float) -> tuple[str | None, float]:
    """Return why and when a client is given up, by a shell that asks only when it has to."""
    seconds = {"start_timeout_seconds": 10.0, "idle_timeout_seconds": 20.0}
    seconds |= {"send_timeout_seconds": 30.0, "max_stream_seconds": 0.0}
    now = 100.0
    deadlines = Deadlines(Limits.model_validate(seconds | limits), now)
    timer = deadlines.next(now)
    prepare(deadlines)
    while (now := timer) < 100.0 + LONG:
        if error := deadlines.expired(now):
            assert error.message.startswith("expected ")
            return error.code, now - 100
        if deadlines.closed(now):
            break
        timer = deadlines.next(now)
        assert timer > now
    return None, LONG


def begin(deadlines: Deadlines) -> None:
    deadlines.expect_audio(100.0)


def test_a_client_has_its_time_for_the_start() -> None:
    assert given_up(lambda _: None) == (ErrorCode.START_TIMEOUT, 10)


def test_a_client_that_has_begun_has_its_time_for_more_audio() -> None:
    assert given_up(begin) == (ErrorCode.IDLE_TIMEOUT, 20)


@pytest.mark.parametrize("start", [0.5, 60.0])
def test_a_deadline_passes_in_time_whatever_the_others_are(start: float) -> None:
    limits = {"start_timeout_seconds": start}
    assert given_up(begin, **limits) == (ErrorCode.IDLE_TIMEOUT, 20)


def test_a_client_whose_message_is_being_handled_is_not_to_blame() -> None:
    def handle(deadlines: Deadlines) -> None:
        begin(deadlines)
        deadlines.handling = True

    assert given_up(handle) == (None, LONG)


def test_a_client_that_has_ended_its_stream_has_nothing_to_say() -> None:
    def end(deadlines: Deadlines) -> None:
        begin(deadlines)
        deadlines.expect_nothing()

    assert given_up(end) == (None, LONG)
    assert given_up(end, max_stream_seconds=50.0) == (ErrorCode.STREAM_TOO_LONG, 50)


def test_a_client_that_leaves_a_message_unread_is_given_up() -> None:
    def send(deadlines: Deadlines) -> None:
        deadlines.expect_nothing()
        deadlines.send(100.0)

    def read(deadlines: Deadlines) -> None:
        send(deadlines)
        deadlines.sent()

    assert given_up(send) == (ErrorCode.SLOW_CLIENT, 30)
    assert given_up(read) == (None, LONG)


def test_nobody_is_given_up_after_the_end() -> None:
    def leave(deadlines: Deadlines) -> None:
        begin(deadlines)
        deadlines.stop()
        deadlines.close(100.0)
        assert not deadlines.closed(129.0)
        assert deadlines.closed(130.0)

    assert given_up(leave, max_stream_seconds=50.0)[0] is None
