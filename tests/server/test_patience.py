"""The clocks of one connection, without a connection."""

import asyncio
from collections.abc import Callable
from time import monotonic

from cortado.server.patience import Patience
from cortado.server.protocol.messages import ErrorCode
from cortado.server.settings import Settings

SHORT = {
    "start_timeout_seconds": 0.1,
    "idle_timeout_seconds": 0.2,
    "send_timeout_seconds": 0.3,
}


def given_up(prepare: Callable[[Patience], None], **seconds: float) -> tuple[str | None, float]:
    """Return why a client is given up within a second, if it is, and after how long."""

    async def scenario() -> tuple[str | None, float]:
        over: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        settings = Settings.model_validate(SHORT | seconds)
        patience = Patience(settings, lambda code, _: over.set_result(code))
        began = monotonic()
        patience.start()
        prepare(patience)
        try:
            async with asyncio.timeout(1.0):
                code = await over
        except TimeoutError:
            return None, 1.0
        finally:
            patience.stop()
        return code, monotonic() - began

    return asyncio.run(scenario())


def listen(patience: Patience) -> None:
    patience.listening = True


def begin(patience: Patience) -> None:
    listen(patience)
    patience.expect_audio()


def test_a_client_has_its_time_for_the_start() -> None:
    code, passed = given_up(listen)
    assert code == ErrorCode.START_TIMEOUT
    assert passed >= 0.1


def test_a_client_that_has_begun_has_its_time_for_more_audio() -> None:
    code, passed = given_up(begin)
    assert code == ErrorCode.IDLE_TIMEOUT
    assert passed >= 0.2


def test_a_clock_that_is_set_shorter_than_the_one_before_runs_out_in_time() -> None:
    code, passed = given_up(begin, start_timeout_seconds=60.0)
    assert code == ErrorCode.IDLE_TIMEOUT
    assert 0.2 <= passed < 1


def test_a_client_that_is_not_listened_to_is_not_to_blame() -> None:
    assert given_up(Patience.expect_audio) == (None, 1.0)


def test_a_client_that_has_ended_its_stream_has_nothing_to_say() -> None:
    def end(patience: Patience) -> None:
        listen(patience)
        patience.expect_nothing()

    assert given_up(end) == (None, 1.0)


def test_a_client_that_leaves_a_message_unread_is_given_up() -> None:
    def send(patience: Patience) -> None:
        patience.sending = monotonic()

    code, passed = given_up(send)
    assert code == ErrorCode.SLOW_CLIENT
    assert passed >= 0.3


def test_nobody_is_given_up_after_the_stop() -> None:
    def leave(patience: Patience) -> None:
        listen(patience)
        patience.stop()

    assert given_up(leave) == (None, 1.0)
