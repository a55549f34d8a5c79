"""The backlog of many rows is `model.backends.reference.Stream` for each of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cortado.model.backends.reference import FLUSH_STEPS, Stream
from cortado.model.vocabulary import Vocabulary
from cortado.server.backlog import USUAL, Backlog, Steps

ROWS = 3
STEP = 640
actions = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.integers(0, ROWS - 1), st.integers(0, 5000)),
        st.tuples(st.just("end"), st.integers(0, ROWS - 1), st.integers(0, 900)),
        st.tuples(st.just("open"), st.integers(0, ROWS - 1), st.just(0)),
        st.tuples(st.just("step"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


def fresh() -> Stream:
    return Stream(Vocabulary(), 3)


@given(actions=actions, seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=60)
def test_rows_give_the_steps_that_streams_give(
    actions: list[tuple[str, int, int]], seed: int
) -> None:
    random = np.random.default_rng(seed)
    backlog, streams = Backlog(ROWS, 2.0, FLUSH_STEPS), [fresh() for _ in range(ROWS)]
    ended: set[int] = set()
    for now, (action, row, count) in enumerate([*actions, *[("step", 0, 0)] * 80]):
        samples = random.normal(size=count).astype(np.float32)
        if action == "open":
            backlog.open(row)
            streams[row] = fresh()
            ended.discard(row)
        elif action == "push" and row not in ended:
            if backlog.push(row, samples, float(now)):
                streams[row].push(samples)
            else:
                assert streams[row].buffered + count > 2 * 16_000
        elif action == "end" and row not in ended:
            backlog.finish(row, samples, float(now))
            streams[row].push(samples)
            streams[row].end()
            ended.add(row)
        elif action == "step":
            step_all(backlog, streams)
    for row, stream in enumerate(streams):
        assert backlog.buffered(row) == stream.buffered
        assert bool(backlog.finished(np.array([row]))[0]) == stream.finished


def step_all(backlog: Backlog, streams: list[Stream]) -> None:
    ready = [row for row, stream in enumerate(streams) if stream.ready]
    assert backlog.ready().tolist() == ready
    if not ready:
        return
    steps: Steps = backlog.take(backlog.ready())
    for row, samples in zip(ready, steps.samples, strict=True):
        expected = streams[row].next_step()
        assert expected is not None
        assert np.array_equal(samples, expected)
    assert backlog.count(steps).all()
    for row in ready:
        streams[row].emitted([])
        assert backlog.positions(np.array([row]))[0] == pytest.approx(streams[row].position)


def test_steps_carry_the_time_at_which_they_were_complete() -> None:
    backlog = Backlog(1, 2.0, FLUSH_STEPS)
    row = np.array([0])
    backlog.push(0, np.zeros(600, np.float32), 1.0)
    backlog.push(0, np.zeros(700, np.float32), 2.0)
    backlog.push(0, np.zeros(640, np.float32), 3.0)
    assert [backlog.take(row).arrivals[0] for _ in range(3)] == [2.0, 2.0, 3.0]


def test_steps_of_a_row_that_changed_hands_are_nobodys() -> None:
    backlog = Backlog(2, 2.0, FLUSH_STEPS)
    for row in range(2):
        backlog.push(row, np.zeros(640, np.float32), 0.0)
    steps = backlog.take(backlog.ready())
    backlog.close(0)
    backlog.open(0)
    assert backlog.count(steps).tolist() == [False, True]
    assert backlog.done.tolist() == [0, 1]


def test_a_batch_takes_from_rows_with_much_and_with_little_audio() -> None:
    backlog, random = Backlog(3, 2.0, FLUSH_STEPS), np.random.default_rng(0)
    heard = [random.normal(size=size).astype(np.float32) for size in (USUAL, 20_000, 700)]
    for row, samples in enumerate(heard):
        backlog.push(row, samples, 0.0)
    backlog.finish(2, heard[2][:0], 0.0)
    heard[2] = np.concatenate([heard[2], np.zeros(STEP * (2 + FLUSH_STEPS) - 700, np.float32)])
    for step in range(2 + FLUSH_STEPS):
        steps = backlog.take(backlog.ready())
        for row, samples in zip(steps.rows.tolist(), steps.samples, strict=True):
            assert np.array_equal(samples, heard[row][step * STEP : (step + 1) * STEP])
    more = random.normal(size=STEP).astype(np.float32)
    assert backlog.buffered(0) == USUAL % STEP
    backlog.push(0, more, 1.0)  # its place is full to the end: what is left moves to the front
    left = np.concatenate([heard[0][-(USUAL % STEP) :], more])[:STEP]
    assert np.array_equal(backlog.take(np.array([0])).samples[0], left)


def test_audio_after_the_end_is_refused() -> None:
    backlog = Backlog(1, 2.0, FLUSH_STEPS)
    backlog.finish(0, np.zeros(10, np.float32), 0.0)
    with pytest.raises(ValueError, match="after the end"):
        backlog.push(0, np.zeros(10, np.float32), 1.0)
