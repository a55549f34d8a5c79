"""Recordings at other speeds have the states that they have at their own, as long as they last."""

from pathlib import Path

import numpy as np
import pytest

from cortado.training.data.log_mel_cache import CachedUtterance
from cortado.training.data.tied_states import (
    UNKNOWN,
    _fill_other_speeds,
    aligner,
    encoder_targets,
    retimed_states,
)


def test_a_faster_recording_has_its_states_for_a_shorter_time() -> None:
    own = CachedUtterance("a", "hey", 0, 100)
    slow = CachedUtterance("a", "hey", 100, 125, speed=0.8)
    fast = CachedUtterance("a", "hey", 225, 80, speed=1.25)
    found = np.full(305, UNKNOWN, np.int16)
    found[:100] = np.arange(100)
    _fill_other_speeds(found, [own, slow, fast])
    assert np.array_equal(found[:100], np.arange(100))
    assert np.array_equal(found[100:225], np.arange(125) * 4 // 5)
    assert np.array_equal(found[225:], np.arange(80) * 5 // 4)
    heard = [encoder_targets(retimed_states(found, one, one.frames), 0, 11) for one in (slow, fast)]
    assert [each[each >= 0].max() for each in heard] == [found[100 + 123 - 9], found[225 + 79 - 9]]


def test_an_aligner_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected recordings whose words espeak-ng pronounces"):
        aligner([], {}, tmp_path / "aligner", 10)
