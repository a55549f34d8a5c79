"""What the engine believes that it can carry, by a clock of the test's own."""

import asyncio
import time

import pytest

from cortado.model.backends.reference import ReferenceRecognizer
from cortado.model.features.framing import STEP_SECONDS
from cortado.model.streaming.interface import BATCH
from cortado.server import capacity as capacity_module
from cortado.server.capacity import CALIBRATIONS, FREQUENT, NOTICED, Capacity
from cortado.server.engine import Engine
from cortado.server.metrics import Metrics
from cortado.tests.server.running import PATIENCE


def batches(capacity: Capacity, count: int, streams: int, cost: float, pause: float) -> None:
    """Let `count` batches pass, each of `streams` steps that cost `cost` seconds."""
    now = capacity.last
    for _ in range(count):
        started = now + pause
        now = started + streams * cost
        capacity.observe(streams, started, now)


def calibrated(capacity: Capacity, cost: float) -> bool:
    """Let a batch of speech show that a step costs `cost` seconds; return whether that is news."""

    class Speech:
        def cost(self) -> float:
            return cost

    capacity._speech = Speech()  # type: ignore[assignment]
    return capacity.calibrate()


def carrying_1000(online: ReferenceRecognizer) -> tuple[Capacity, float]:
    """Return a capacity that has settled at 1,000 streams, and the cost of a step, in seconds.

    The cost lies where no rounding decides.
    """
    capacity, cost = Capacity(10_000, 0.0), STEP_SECONDS / 1000.5
    capacity.measure(online, 1)
    for _ in range(CALIBRATIONS):
        calibrated(capacity, cost)
    assert capacity.streams == 1000
    return capacity, cost


def test_a_measured_engine_lets_in_what_it_can_carry(online: ReferenceRecognizer) -> None:
    capacity = Capacity(10_000, 0.2)
    cost = capacity.measure(online, 1)
    assert capacity.streams == max(1, min(10_000, int(0.8 * STEP_SECONDS / cost)))


def test_no_headroom_is_no_limit(online: ReferenceRecognizer) -> None:
    capacity = Capacity(10_000, 1.0)
    capacity.measure(online, 1)
    assert capacity.streams == 10_000


def test_a_machine_that_becomes_slow_lets_fewer_in(online: ReferenceRecognizer) -> None:
    capacity, cost = carrying_1000(online)
    batches(capacity, 10 * FREQUENT, BATCH, 10 * cost, 0.0)
    assert capacity.cost == pytest.approx(10 * cost, rel=0.01)
    assert capacity.streams == pytest.approx(100, rel=NOTICED)


def test_a_bad_minute_at_start_is_forgotten_soon(online: ReferenceRecognizer) -> None:
    capacity = Capacity(10**9, 0.0)  # more than any machine carries
    bad = capacity.measure(online, 1)
    refusing = capacity.streams
    assert calibrated(capacity, bad / 4)
    assert capacity.streams == pytest.approx(4 * refusing, rel=0.05, abs=4)


def test_the_capacity_follows_the_machine_down_and_up_without_flapping(
    online: ReferenceRecognizer,
) -> None:
    capacity, cost = carrying_1000(online)
    seen = set()
    for k in range(20):  # chance, and one busy moment, change nothing
        calibrated(capacity, 10 * cost if k == 7 else cost * (1.03 if k % 2 else 0.98))
        seen.add(capacity.streams)
    assert seen == {1000}
    for _ in range(5):
        calibrated(capacity, 2 * cost)
    assert capacity.streams == 500
    for _ in range(5):
        calibrated(capacity, cost)
    assert capacity.streams == 1000


def test_live_speech_that_costs_more_than_what_is_measured_counts_until_it_is_over(
    online: ReferenceRecognizer,
) -> None:
    capacity, cost = carrying_1000(online)
    batches(capacity, 10 * FREQUENT, BATCH, 4 * cost, 0.0)
    assert capacity.streams == pytest.approx(250, rel=0.06)
    calibrated(capacity, cost)
    assert capacity.streams == pytest.approx(250, rel=0.06)
    calibrated(capacity, cost)  # no large batch since
    assert capacity.streams == 1000


def test_an_engine_measures_again_while_it_runs(
    online: ReferenceRecognizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capacity_module, "CALIBRATE_SECONDS", 0.01)
    metrics = Metrics()

    async def run() -> int:
        engine = Engine(online, metrics, max_streams=4096, buffer_seconds=1.0)
        engine.capacity.streams = 1  # as after a bad minute
        engine.start()
        until = time.monotonic() + PATIENCE
        while engine.capacity.streams == 1 and time.monotonic() < until:
            await asyncio.sleep(0.01)
        engine.stop()
        return engine.capacity.streams

    found = asyncio.run(run())
    assert found > 1
    assert metrics.registry.get_sample_value("cortado_streams_capacity") == found


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
