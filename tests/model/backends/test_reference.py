"""The reference's states are values, and its weights are frozen."""

import numpy as np
import pytest

from cortado.model.backends.reference import ReferenceRecognizer
from cortado.model.config import MAX_SYMBOLS_PER_STEP
from cortado.model.emission import FLUSH_STEPS
from cortado.model.streaming.recordings import transcribe
from cortado.tests.model.untrained import TINY, TINY_SEED, untrained


@pytest.fixture(scope="module")
def tiny() -> ReferenceRecognizer:
    return untrained(TINY, TINY_SEED)


def test_a_recogniser_that_streams_is_frozen(tiny: ReferenceRecognizer) -> None:
    assert not tiny.recognizer.training
    assert not any(p.requires_grad for p in tiny.recognizer.parameters())
    assert (tiny.lookahead_ms, tiny.flush_steps) == (110, FLUSH_STEPS)


def test_no_audio_is_transcribed_in_the_flush_alone(tiny: ReferenceRecognizer) -> None:
    assert len(transcribe(tiny, np.zeros(0, np.float32))) <= FLUSH_STEPS * MAX_SYMBOLS_PER_STEP
