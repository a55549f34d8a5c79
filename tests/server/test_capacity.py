"""What the engine believes that it can carry, by a clock of the test's own."""

import pytest

from cortado.model.backends.reference import ReferenceRecognizer
from cortado.model.features.framing import STEP_SECONDS
from cortado.model.streaming.interface import BATCH
from cortado.server.capacity import FREQUENT, Capacity
from cortado.server.engine import Engine, EngineFull
from cortado.server.metrics import Metrics


def batches(capacity: Capacity, count: int, streams: int, cost: float, pause: float) -> None:
    """Let `count` batches pass, each of `streams` steps that cost `cost` seconds."""
    now = capacity.last
    for _ in range(count):
        started = now + pause
        now = started + streams * cost
        capacity.observe(streams, started, now)


def test_a_measured_engine_lets_in_what_it_can_carry(online: ReferenceRecognizer) -> None:
    capacity = Capacity(10_000, 0.2)
    cost = capacity.measure(online, 1)
    assert capacity.streams == max(1, min(10_000, int(0.8 * STEP_SECONDS / cost)))


def test_no_headroom_is_no_limit(online: ReferenceRecognizer) -> None:
    capacity = Capacity(10_000, 1.0)
    capacity.measure(online, 1)
    assert capacity.streams == 10_000


def test_a_machine_that_becomes_slow_lets_fewer_in(online: ReferenceRecognizer) -> None:
    capacity = Capacity(10_000, 0.0)
    before = 10 * capacity.measure(online, 1)
    batches(capacity, 10 * FREQUENT, BATCH, before, 0.0)
    assert capacity.cost == pytest.approx(before, rel=0.01)
    assert capacity.streams == max(1, int(STEP_SECONDS / capacity.cost))


def test_small_batches_say_nothing_of_the_cost(online: ReferenceRecognizer) -> None:
    capacity = Capacity(10_000, 0.0)
    cost = capacity.measure(online, 1)
    batches(capacity, 10 * FREQUENT, BATCH - 1, 10 * cost, 0.0)
    assert capacity.cost == cost


def test_the_window_grows_with_the_load_to_one_step() -> None:
    capacity = Capacity(100, 0.0)
    batches(capacity, 1000, 1, 0.001, 0.1)
    assert capacity.window < 0.001
    batches(capacity, 1000, 10, 0.001, 0.0)
    assert capacity.window == pytest.approx(STEP_SECONDS, rel=0.1)


def test_the_stream_that_could_not_be_carried_is_refused(online: ReferenceRecognizer) -> None:
    engine = Engine(online, Metrics(), max_streams=8, buffer_seconds=1.0)
    engine.capacity.streams = 1
    engine.open(16_000, print)
    with pytest.raises(EngineFull, match="at most 1 streams"):
        engine.open(16_000, print)
