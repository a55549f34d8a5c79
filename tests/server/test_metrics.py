"""The metrics of a server that has two engines, as it has for a while after a reload."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from cortado.server.metrics import Metrics

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
