"""How strange a voice is: the entropy of the CTC head at its symbols, remembered for a while."""

import numpy as np
import pytest
from numpy.typing import NDArray

from cortado.model.search.voice import FIRST, MEMORY, SYMBOLS, USUAL, listen, strangeness

BLANK = np.array([1 - 3e-5, 1e-5, 1e-5, 1e-5], np.float32)
TORN = np.array([1e-5, 0.25, 0.25, 0.5], np.float32)  # between three symbols
ENTROPY = 1.5 * np.log(2)


def heard(*frames: NDArray[np.float32]) -> NDArray[np.float32]:
    voice = np.zeros(2, np.float32)
    for frame in frames:
        listen(frame, voice)
    return voice


def test_a_stream_begins_with_a_usual_voice() -> None:
    assert strangeness(heard()) == 0


def test_strangeness_is_the_mean_excess_of_the_symbols_entropy() -> None:
    found = strangeness(heard(*[TORN] * 20))
    assert found == pytest.approx(20 * (ENTROPY - USUAL) / (20 + FIRST), abs=1e-3)


def test_frames_of_blanks_say_nothing() -> None:
    with_pauses = heard(*[TORN, *[BLANK] * 50] * 3)
    np.testing.assert_allclose(with_pauses, heard(*[TORN] * 3), atol=0.01)


def test_what_is_long_past_is_forgotten() -> None:
    sure = np.array([1e-5, 1 - 3e-5, 1e-5, 1e-5], np.float32)
    count = int(MEMORY)
    voice = heard(*[TORN] * 1000)
    assert voice[SYMBOLS] == pytest.approx(MEMORY)
    alone = strangeness(heard(*[sure] * 5 * count))
    for _ in range(5 * count):
        listen(sure, voice)
    assert strangeness(voice) == pytest.approx(alone, abs=0.01)
