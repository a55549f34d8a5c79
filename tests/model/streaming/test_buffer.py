"""Audio that waits: pieces of any size become steps of one size."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cortado.model.arrays import Samples
from cortado.model.emission import FLUSH_STEPS
from cortado.model.features.framing import SAMPLES_PER_STEP as STEP
from cortado.model.streaming.buffer import GOES_ON, USUAL, Buffer

ROWS = 3
ROW = np.zeros(1, np.int64)

actions = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.integers(0, ROWS - 1), st.integers(0, 5000)),
        st.tuples(st.just("end"), st.integers(0, ROWS - 1), st.just(0)),
        st.tuples(st.just("open"), st.integers(0, ROWS - 1), st.just(0)),
        st.tuples(st.just("step"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


class Plain:
    """What a row does, in as few words as possible."""

    def __init__(self) -> None:
        self.waits, self.received, self.done = np.zeros(0, np.float32), 0, 0
        self.ended = False

    def end(self) -> None:
        silence = -len(self.waits) % STEP + FLUSH_STEPS * STEP
        self.waits, self.ended = np.pad(self.waits, (0, silence)), True

    def step(self) -> Samples:
        step, self.waits = self.waits[:STEP], self.waits[STEP:]
        self.done += 1
        return step


@given(actions=actions, seed=st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_rows_give_the_steps_of_their_audio_whatever_the_others_do(
    actions: list[tuple[str, int, int]], seed: int
) -> None:
    random = np.random.default_rng(seed)
    buffer, rows = Buffer(ROWS, FLUSH_STEPS), [Plain() for _ in range(ROWS)]
    for action, row, count in [*actions, *[("step", 0, 0)] * 80]:
        plain = rows[row]
        if action == "open":
            buffer.open(row)
            rows[row] = Plain()
        elif action == "push" and not plain.ended:
            samples = random.normal(size=count).astype(np.float32)
            buffer.push(row, samples)
            plain.waits = np.concatenate([plain.waits, samples])
            plain.received += count
        elif action == "end":
            buffer.end(row)
            if not plain.ended:  # twice is once
                plain.end()
        elif action == "step":
            step_all(buffer, rows)
    for row, plain in enumerate(rows):
        assert buffer.finished(np.array([row]))[0] == plain.ended


def step_all(buffer: Buffer, rows: list[Plain]) -> None:
    ready = [row for row, plain in enumerate(rows) if len(plain.waits) >= STEP]
    assert buffer.ready().tolist() == ready
    steps = buffer.take(buffer.ready())
    for row, samples, number in zip(ready, steps.samples, steps.numbers, strict=True):
        assert number == rows[row].done
        assert np.array_equal(samples, rows[row].step())
        assert not buffer.at_rest(row)
    assert buffer.count(steps).all()
    for row in ready:
        heard = min(rows[row].done * STEP, rows[row].received)  # no further than the audio
        assert buffer.positions(np.array([row]))[0] == heard / 16_000


def test_steps_of_a_row_that_changed_hands_are_nobodys() -> None:
    buffer = Buffer(2, FLUSH_STEPS)
    for row in range(2):
        buffer.push(row, np.zeros(STEP, np.float32))
    steps = buffer.take(buffer.ready())
    buffer.close(0)
    buffer.open(0)
    assert buffer.count(steps).tolist() == [False, True]
    assert buffer.at_rest(0)


def test_a_batch_takes_from_rows_with_much_and_with_little_audio() -> None:
    buffer, random = Buffer(3, FLUSH_STEPS), np.random.default_rng(0)
    heard = [random.normal(size=size).astype(np.float32) for size in (USUAL, 20_000, 700)]
    for row, samples in enumerate(heard):
        buffer.push(row, samples)
    buffer.end(2)
    assert [buffer.complete(row) for row in range(3)] == [6, 31, 2 + FLUSH_STEPS]
    heard[2] = np.pad(heard[2], (0, STEP * (2 + FLUSH_STEPS) - 700))
    for step in range(2 + FLUSH_STEPS):
        steps = buffer.take(buffer.ready())
        for row, samples in zip(steps.rows.tolist(), steps.samples, strict=True):
            assert np.array_equal(samples, heard[row][step * STEP : (step + 1) * STEP])
            assert steps.flushing[steps.rows == row] == (row == 2 and step > 1)
    more = random.normal(size=STEP).astype(np.float32)
    assert buffer.waiting(0) == USUAL % STEP
    buffer.push(0, more)  # its place is full to the end: what is left moves to the front
    left = np.concatenate([heard[0][-(USUAL % STEP) :], more])[:STEP]
    assert np.array_equal(buffer.take(ROW).samples[0], left)


def test_what_waits_goes_on_in_another_row() -> None:
    one, other = Buffer(1, FLUSH_STEPS), Buffer(2, FLUSH_STEPS)
    one.push(0, np.arange(1000, dtype=np.float32))
    one.count(one.take(ROW))
    assert one.drained(0)
    received, steps, flush, samples = one.snapshot(0)
    assert (received, steps, flush, len(samples)) == (1000, 1, GOES_ON, 360)
    other.open(1)
    other.restore(1, received, steps, flush, samples)
    for buffer, row in ((one, 0), (other, 1)):
        buffer.end(row)
        assert buffer.take(np.array([row])).samples[0, 359] == 999
    assert other.taken(ROW + 1) == one.taken(ROW) == 2


def test_audio_after_the_end_or_of_another_kind_is_refused() -> None:
    buffer = Buffer(1, FLUSH_STEPS)
    for samples in (np.zeros(3), np.zeros((1, 3), np.float32), np.zeros(3, "i2")):
        with pytest.raises(ValueError, match=r"expected \(N,\) float32 samples, got \("):
            buffer.push(0, samples)  # type: ignore[arg-type]
    buffer.end(0)
    with pytest.raises(ValueError, match=r"expected no audio after the end, got 3 samples"):
        buffer.push(0, np.zeros(3, np.float32))
