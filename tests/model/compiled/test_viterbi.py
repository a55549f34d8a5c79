"""A word is laid on frames as a loop over its phones does it, to the bit."""

from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cortado.model.compiled.viterbi import IMPOSSIBLE, viterbi

FRAMES, PHONES, LANES = 12, 7, 8
MISSED, BEYOND, UNSPOKEN = np.float32(1.3), np.float32(0.7), np.float32(0.9)

Floats = NDArray[np.float32]

lasting = settings(max_examples=200)
lay: Any = viterbi(LANES)


def _compiled(
    begun: Floats,
    heard: Floats,
    phones: NDArray[np.int32],
    first: int,
    ended: Floats,
    reached: Floats,
) -> np.float32:
    word = begun, heard, heard.shape[1], phones, len(phones), first, len(heard)
    return lay(*word, MISSED, BEYOND, UNSPOKEN, ended, reached)


compiled: Any = numba.njit(_compiled)


def plain(
    begun: Floats,
    heard: Floats,
    phones: NDArray[np.int32],
    first: int,
    ended: Floats,
    reached: Floats,
) -> np.float32:
    """The definition, a phone and a frame at a time."""
    count = len(phones)
    ways, after = np.full(count, IMPOSSIBLE), IMPOSSIBLE
    for n in range(first + 1, FRAMES):
        before = begun[n - 1]
        after = max(after, ways[-1] if count else before) - BEYOND
        old = ways.copy()
        for q in range(count):
            best = max(old[q], old[q - 1] if q else before)
            if q:
                best = max(best, (old[q - 2] if q > 1 else before) - MISSED)
            ways[q] = best + heard[n, phones[q]]
        ended[n] = ways[-1] if count else after
        if count > 1:
            ended[n] = max(ended[n], ways[-2] - MISSED)
    reached[: count + 1] = [*ways, after]
    lacking = [ways[q] - np.float32(count - 1 - q) * UNSPOKEN for q in range(count)]
    return max([after, *lacking])


@lasting
@given(
    seed=st.integers(0, 10_000),
    count=st.integers(0, LANES - 1),
    first=st.integers(0, FRAMES - 1),
)
def test_a_word_is_laid_on_frames_as_by_the_definition(seed: int, count: int, first: int) -> None:
    random = np.random.default_rng(seed)
    begun = -20 * random.random(FRAMES, np.float32)
    begun[random.random(FRAMES) < 0.3] = IMPOSSIBLE
    heard = -12 * random.random((FRAMES, PHONES), np.float32)
    phones = random.integers(0, PHONES, count).astype(np.int32)
    ended = np.zeros((2, FRAMES), np.float32)
    reached = np.zeros((2, LANES), np.float32)
    found = compiled(begun, heard, phones, first, ended[0], reached[0])
    assert found == plain(begun, heard, phones, first, ended[1], reached[1])
    assert ended[0].tobytes() == ended[1].tobytes()
    assert (reached[0] == reached[1])[: count + 1].all()


def test_an_array_with_gaps_is_refused() -> None:
    begun, ended = np.zeros((2, FRAMES), np.float32)
    heard = np.zeros((FRAMES, 2 * PHONES), np.float32)[:, ::2]
    with pytest.raises(numba.TypingError):
        compiled(begun, heard, np.zeros(2, np.int32), 0, ended, np.zeros(LANES, np.float32))
