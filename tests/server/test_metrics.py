"""The metrics of a server that has two engines, as it has for a while after a reload."""

import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from cortado.server.metrics import REFUSALS, Metrics
from cortado.server.protocol.messages import ErrorCode

DOCUMENTED = Path(__file__).parents[2] / "docs" / "metrics.md"
TIMES = 5000


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads take turns as often as Python lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("restless")
def test_no_delay_is_lost_where_two_engines_count_at_once() -> None:
    metrics, delays = Metrics(), np.array([0.1, 0.2])

    def count(_: int) -> None:
        for _ in range(TIMES):
            metrics.delay.observe_many(delays)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(count, range(2)))
    name = "cortado_processing_delay_seconds_count"
    assert metrics.registry.get_sample_value(name) == 2 * 2 * TIMES


def test_each_reason_of_a_refusal_is_documented_and_counted_from_the_start() -> None:
    [row] = [
        line
        for line in DOCUMENTED.read_text("utf-8").splitlines()
        if line.startswith("| `cortado_connections_refused_total`")
    ]
    assert set(re.findall("`([a-z_]+)`", row)[2:]) == {str(one) for one in REFUSALS}
    streams = {ErrorCode.INVALID_MESSAGE, ErrorCode.INVALID_STATE, ErrorCode.UNKNOWN_STREAM}
    assert streams < set(REFUSALS)
    name = "cortado_connections_refused_total"
    for reason in REFUSALS:
        found = Metrics().registry.get_sample_value(name, {"reason": str(reason)})
        assert found == 0
