"""A pronunciation's score is that of its best way through the frames."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cortado.model.compiled.viterbi import IMPOSSIBLE
from cortado.model.search import pronunciation
from cortado.model.search.pronunciation import (
    BEYOND,
    HISTORY,
    LOST,
    MISSED,
    NOW,
    PLACES,
    REACHED,
    SILENCE,
    UNSPOKEN,
)

PHONES = 4
Floats = NDArray[np.float32]

lasting = settings(deadline=None, max_examples=60)


def frames(seed: int) -> Floats:
    """The scores (HISTORY, P) of phones at frames, oldest first."""
    random = np.random.default_rng(seed)
    found = np.zeros((HISTORY, PHONES), np.float32)
    for frame in found:
        pronunciation.relative(random.normal(0, 2, PHONES + 3).astype(np.float32), frame)
    return found


def fitted(begun: Floats, heard: Floats, phones: list[int]) -> tuple[float, Floats]:
    ended, reached = np.zeros(HISTORY, np.float32), np.zeros(REACHED, np.float32)
    of = np.array(phones, np.int32)
    return float(pronunciation.fit(begun, heard, of, ended, reached)), ended


def ways(heard: Floats, phones: list[int], frame: int, place: int) -> Iterator[tuple[int, float]]:
    """Yield the last place and the score of each way from a place at a frame up to the last one.

    Places are those of phones, -1 before the first and len(phones) behind the last.
    """
    if frame == NOW:
        yield place, 0.0
        return
    end = len(phones)
    for following in range(max(place, 0), end + 1):
        left_out = following - place - 1
        if following == end:
            if place < end - 1:
                continue
            cost = -float(BEYOND)
        elif left_out > 1:
            continue
        else:
            missed = float(MISSED) if left_out == 1 else 0.0
            cost = float(heard[frame + 1, phones[following]]) - missed
        for last, score in ways(heard, phones, frame + 1, following):
            yield last, cost + score


@lasting
@given(
    seed=st.integers(0, 10_000),
    phones=st.lists(st.integers(1, PHONES - 1), max_size=4),
    starts=st.dictionaries(st.integers(NOW - 6, NOW), st.floats(-9, 0, width=32), min_size=1),
    lost=st.floats(-30, 0, width=32),
)
def test_the_score_is_that_of_the_best_way_through_the_frames(
    seed: int, phones: list[int], starts: dict[int, float], lost: float
) -> None:
    heard = frames(seed)
    begun = np.full(PLACES, IMPOSSIBLE, np.float32)
    begun[LOST] = lost
    for frame, score in starts.items():
        begun[frame] = score
    scores = (
        starts[frame] + score - float(UNSPOKEN) * max(len(phones) - 1 - last, 0)
        for frame in starts
        for last, score in ways(heard, phones, frame, -1)
    )
    wanted = max(lost, *scores)
    assert fitted(begun, heard, phones)[0] == pytest.approx(wanted, abs=1e-4)


@lasting
@given(
    seed=st.integers(0, 10_000),
    phones=st.lists(st.integers(1, PHONES - 1), max_size=20),
    start=st.integers(HISTORY // 2, NOW),
    frames_more=st.integers(1, HISTORY // 2),
)
def test_following_a_word_frame_by_frame_gives_the_scores_of_laying_it_on_all_frames(
    seed: int, phones: list[int], start: int, frames_more: int
) -> None:
    heard, of = frames(seed), np.array(phones, np.int32)
    begun = np.full(PLACES, IMPOSSIBLE, np.float32)
    begun[start] = 0
    ended, reached, anew = np.zeros(HISTORY, np.float32), *np.zeros((2, REACHED), np.float32)
    pronunciation.fit(begun, heard, of, ended, reached)
    for frame in frames(seed + 1)[:frames_more]:
        heard[:NOW], heard[NOW] = heard[1:].copy(), frame
        pronunciation.advance(begun, heard)
        total = pronunciation.follow(begun, heard[NOW], of, reached)
        assert total == pytest.approx(pronunciation.fit(begun, heard, of, ended, anew), abs=1e-3)
        count = len(phones) + 1
        possible = anew[:count] > IMPOSSIBLE / 2
        assert reached[:count][possible] == pytest.approx(anew[:count][possible], abs=1e-3)
        assert (reached[:count][~possible] < IMPOSSIBLE / 2).all()


def test_words_and_the_silence_between_them_follow_each_other() -> None:
    heard = np.full((HISTORY, PHONES), -9, np.float32)
    said = [(2, 1), (2, 2), (3, SILENCE), (3, 3)]  # frames and the phone that they have
    heard[-10:] = -9
    places = [phone for count, phone in said for _ in range(count)]
    for n, phone in enumerate(places):
        heard[HISTORY - len(places) + n, phone] = 0
    begun = np.full(PLACES, IMPOSSIBLE, np.float32)
    begun[HISTORY - len(places) - 1] = 0
    _, ended = fitted(begun, heard, [1, 2])
    pronunciation.finish(ended, heard, begun)
    assert max(begun) == 0
    assert fitted(begun, heard, [3])[0] == 0
    assert fitted(begun, heard, [1])[0] < -5


def test_a_word_whose_pronunciation_is_not_known_costs_a_constant_for_each_frame() -> None:
    begun = np.full(PLACES, IMPOSSIBLE, np.float32)
    begun[NOW - 5] = 0
    total, ended = fitted(begun, frames(1), [])
    assert total == pytest.approx(-5 * BEYOND)
    assert ended[-3:] == pytest.approx([-3 * BEYOND, -4 * BEYOND, -5 * BEYOND])


def test_what_ended_long_ago_is_forgotten_and_silence_is_not() -> None:
    begun, reached = np.zeros((1, PLACES), np.float32), np.zeros((1, REACHED), np.float32)
    pronunciation.begin(begun, reached)
    heard = frames(2)
    for _ in range(3 * HISTORY):
        heard[:, SILENCE] = 0
        pronunciation.advance(begun[0], heard)
    assert begun[0, NOW] == 0
    heard[:, SILENCE] = -5
    for _ in range(6):
        pronunciation.advance(begun[0], heard)
    assert begun[0, NOW] == pytest.approx(-6 * BEYOND)  # noise, as behind a word
    assert begun[0, NOW - 6] == 0
    for _ in range(HISTORY):
        pronunciation.advance(begun[0], heard)
        pronunciation.rebase(begun[0], np.float32(0), begun[0])
    assert begun[0, NOW] == IMPOSSIBLE


@lasting
@given(phones=st.lists(st.integers(1, PHONES - 1), max_size=4), pause=st.integers(1, 3 * HISTORY))
def test_a_long_pause_behind_an_unfinished_word_costs_a_constant_for_each_frame(
    phones: list[int], pause: int
) -> None:
    heard = np.full((HISTORY, PHONES), -9, np.float32)
    for n, phone in enumerate(phones):
        heard[HISTORY - len(phones) + n, phone] = 0
    begun = np.full(PLACES, IMPOSSIBLE, np.float32)
    begun[NOW - len(phones)] = 0
    total = fitted(begun, heard, phones)[0]
    assert total == 0
    for _ in range(pause):
        heard[:NOW] = heard[1:]
        heard[NOW] = -9
        pronunciation.advance(begun, heard)
        gained, ended = fitted(begun, heard, phones)
        of = np.array(phones, np.int32)
        ways, oldest = np.empty(REACHED, np.float32), np.empty_like(begun)
        pronunciation.remember(begun, heard, of, ended, ways, oldest)
        pronunciation.rebase(begun, np.float32(gained), begun)
        assert gained == pytest.approx(-float(BEYOND), abs=1e-4)
    _, ended = fitted(begun, heard, phones)
    pronunciation.finish(ended, heard, begun)
    assert max(begun) > -1  # what follows finds a word that has ended
    assert begun[LOST] == IMPOSSIBLE
