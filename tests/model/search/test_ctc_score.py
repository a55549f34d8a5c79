"""A hypothesis' CTC score is the probability of its text, wherever the attention stops for it."""

from itertools import groupby, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cortado.model.search import ctc_score as ctc

SYMBOLS = 2
Text = tuple[int, ...]

lasting = settings(deadline=None, max_examples=40)


def head(seed: int, frames: int) -> NDArray[np.float32]:
    """The probabilities (T, V + 1) of frames, the blank first."""
    random = np.random.default_rng(seed)
    found = np.zeros((frames, SYMBOLS + 1), np.float32)
    for frame in found:
        ctc.probabilities(random.normal(0, 2, SYMBOLS + 3).astype(np.float32), frame)
    return found


def probability(frames: NDArray[np.float32], text: Text) -> float:
    """The probability of a text, summed over each of its ways through the frames."""
    total = 0.0
    for way in product(range(SYMBOLS + 1), repeat=len(frames)):
        if tuple(symbol - 1 for symbol, _ in groupby(way) if symbol) == text:
            total += float(np.prod([frame[one] for frame, one in zip(frames, way, strict=True)]))
    return total


def scored(frames: NDArray[np.float32], text: Text, stops: list[int], unheard: float) -> float:
    """The score of a text whose symbols are written at the frames `stops`."""
    share, gains = np.float32(unheard), np.zeros(SYMBOLS, np.float32)
    forward = np.zeros((ctc.PLACES, 2), np.float32)
    last, score = np.zeros(ctc.LAG + 1, np.int32), 0.0
    ctc.begin(forward, last)
    for number, now in enumerate(frames):
        score += float(ctc.advance(forward, last, now, share))
        recent = np.ones((ctc.NOW, SYMBOLS + 1), np.float32)
        few = frames[max(number + 1 - ctc.NOW, 0) : number + 1]
        recent[ctc.NOW - len(few) :] = few
        for symbol in (s for s, stop in zip(text, stops, strict=True) if stop == number):
            work, new = np.zeros((2, SYMBOLS), np.float32), np.zeros_like(forward)
            ctc.gains(forward, last, recent, share, work, gains)
            ctc.extend(forward, last, recent, symbol, share, new)
            score += float(gains[symbol])
            forward, last = new, np.array([symbol, *last[:-1]], np.int32)
    return score


@lasting
@given(
    seed=st.integers(0, 10_000),
    text=st.lists(st.integers(0, SYMBOLS - 1), max_size=ctc.LAG).map(tuple),
    unheard=st.sampled_from([0.1, 0.6]),
    data=st.data(),
)
def test_the_score_is_the_probability_of_the_text_wherever_its_symbols_are_written(
    seed: int, text: Text, unheard: float, data: st.DataObject
) -> None:
    frames = head(seed, ctc.NOW)
    places = st.lists(st.integers(0, len(frames) - 1), min_size=len(text), max_size=len(text))
    wanted = sum(
        unheard**missing * probability(frames, text[: len(text) - missing])
        for missing in range(len(text) + 1)
    )
    found = scored(frames, text, sorted(data.draw(places)), unheard)
    assert found == pytest.approx(np.log(max(wanted, 1e-30)), abs=1e-3)


def test_a_symbol_may_be_written_some_frames_before_or_after_the_head_has_it() -> None:
    frames = np.full((20, SYMBOLS + 1), 0.01, np.float32)
    frames[:, 0] = 0.98
    frames[10] = 0.01, 0.98, 0.01
    at = {stop: scored(frames, (0,), [stop], 0.3) for stop in range(20)}
    for stop in range(11 + ctc.HISTORY - 2):
        assert at[stop] == pytest.approx(np.log(0.98) * 20, abs=0.5)
    assert at[19] < -5


def test_scores_stay_finite_however_long_and_however_wrong_a_text_is() -> None:
    frames = head(1, 4000)
    frames[:, 1] = ctc.LEAST_SHARE
    for unheard in (0.1, 0.6):
        score = scored(frames, (0,) * 100, [*range(0, 4000, 40)], unheard)
        assert np.isfinite(score)
        assert score < -400
