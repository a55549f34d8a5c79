"""The reference's states are values, and its weights are frozen."""

import numpy as np
import pytest
import torch

from cortado.model.backends.reference import ReferenceRecognizer
from cortado.model.config import MAX_SYMBOLS_PER_STEP
from cortado.model.emission import FLUSH_STEPS
from cortado.model.layer import put, select, tensors
from cortado.model.streaming.recordings import transcribe
from cortado.tests.model.untrained import TINY, TINY_SEED, untrained


@pytest.fixture(scope="module")
def tiny() -> ReferenceRecognizer:
    return untrained(TINY, TINY_SEED)


def test_a_recogniser_that_streams_is_frozen(tiny: ReferenceRecognizer) -> None:
    assert not tiny.recognizer.training
    assert not any(p.requires_grad for p in tiny.recognizer.parameters())
    assert (tiny.lookahead_ms, tiny.flush_steps) == (110, FLUSH_STEPS)


@pytest.mark.parametrize("streams", [1, 3, 8, 9])
def test_a_step_gives_symbols_and_a_state_to_each_stream(
    tiny: ReferenceRecognizer, streams: int
) -> None:
    before = tiny.initial_state(streams)
    copies = [each.clone() for each in tensors(before)]
    emitted, state = tiny.step(torch.randn(streams, 640), before)
    assert emitted.shape == (streams, MAX_SYMBOLS_PER_STEP, 3)
    assert not emitted[..., 1].any()
    assert all(map(torch.equal, tensors(before), copies))  # a state is a value
    wider = tiny.initial_state(streams + 1)
    merged = put(wider, [streams], select(state, [streams - 1]))
    for whole, fresh, part in zip(*map(tensors, (merged, wider, state)), strict=True):
        assert torch.equal(whole[-1], part[-1])
        assert torch.equal(whole[:-1], fresh[:-1])


def test_no_audio_is_transcribed_in_the_flush_alone(tiny: ReferenceRecognizer) -> None:
    assert len(transcribe(tiny, np.zeros(0, np.float32))) <= FLUSH_STEPS * MAX_SYMBOLS_PER_STEP
