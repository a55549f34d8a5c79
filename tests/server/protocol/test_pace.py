"""How fast audio may come."""

import pytest

from cortado.server.protocol.pace import BURST_SECONDS, Pace


def test_a_burst_is_free_and_what_follows_waits_for_its_time() -> None:
    pace = Pace(50.0)
    assert pace.wait(BURST_SECONDS, 10.0) == 0
    assert pace.wait(100.0, 10.0) == pytest.approx(2.0)
    assert pace.wait(50.0, 12.0) == pytest.approx(1.0)


def test_who_speaks_never_waits() -> None:
    pace = Pace(50.0)
    assert [pace.wait(0.1, 0.1 * k) for k in range(10_000)] == [0.0] * 10_000


def test_silence_is_no_credit_beyond_one_burst() -> None:
    pace = Pace(50.0)
    pace.wait(10.0, 0.0)
    assert pace.wait(BURST_SECONDS + 50.0, 1000.0) == pytest.approx(1.0)


def test_there_may_be_no_limit() -> None:
    assert Pace(0.0).wait(1e9, 0.0) == 0
