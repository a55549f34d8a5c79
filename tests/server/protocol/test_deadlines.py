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


SHORT = {"max_stream_seconds": 50.0}


@pytest.mark.parametrize(
    ("calls", "limits", "expected"),
    [
        ([], {}, (ErrorCode.START_TIMEOUT, 10)),
        (["expect_audio"], {}, (ErrorCode.IDLE_TIMEOUT, 20)),
        (["expect_audio"], {"start_timeout_seconds": 0.5}, (ErrorCode.IDLE_TIMEOUT, 20)),
        (["expect_audio"], {"start_timeout_seconds": 60.0}, (ErrorCode.IDLE_TIMEOUT, 20)),
        (["expect_audio", "expect_nothing"], {}, (None, LONG)),
        (["expect_audio", "expect_nothing"], SHORT, (ErrorCode.STREAM_TOO_LONG, 50)),
        (["expect_nothing", "send"], {}, (ErrorCode.SLOW_CLIENT, 30)),
        (["expect_nothing", "send", "sent"], {}, (None, LONG)),
        (["expect_audio", "stop"], SHORT, (None, LONG)),
    ],
)
def test_a_client_has_its_time_for_each_thing_and_no_more(
    calls: list[str], limits: dict[str, float], expected: tuple[str | None, float]
) -> None:
    def prepare(deadlines: Deadlines) -> None:
        for name in calls:
            call = getattr(deadlines, name)
            call(100.0) if name in ("expect_audio", "send") else call()

    assert given_up(prepare, **limits) == expected


def test_an_error_says_what_a_client_of_any_door_could_have_sent() -> None:
    deadlines = Deadlines(Limits(), 100.0)
    late = deadlines.expired(110.0)
    deadlines.expect_audio(110.0)
    silent = deadlines.expired(140.0)
    assert late is not None
    assert late.message == "expected a stream to begin within 10 s, got none"
    assert silent is not None
    assert silent.message == "expected audio or a sign of life within 30 s, got none"


def test_a_client_whose_message_is_being_handled_is_not_to_blame() -> None:
    def handle(deadlines: Deadlines) -> None:
        deadlines.expect_audio(100.0)
        deadlines.handling = True

    assert given_up(handle) == (None, LONG)


def test_who_does_not_read_the_last_messages_has_its_time_for_that() -> None:
    deadlines = Deadlines(Limits.model_validate({"send_timeout_seconds": 30.0}), 100.0)
    deadlines.stop()
    deadlines.close(100.0)
    assert not deadlines.closed(129.0)
    assert deadlines.closed(130.0)
