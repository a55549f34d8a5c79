"""Where an utterance begins in a pause, the encoder begins anew; within sound it goes on."""

import numpy as np
import pytest
import torch

from cortado.model.backends.cpu.recognizer import FastRecognizer
from cortado.model.backends.reference import ReferenceRecognizer
from cortado.model.features.framing import SAMPLES_PER_STEP
from cortado.model.layer import tensors
from cortado.model.search.settings import DEFAULT_BEAM
from cortado.tests.model.untrained import untrained

ROW = np.array([1])


def sound(steps: int, level: float) -> np.ndarray:
    """Return the steps (T, SAMPLES_PER_STEP) of a row, of noise."""
    random = np.random.default_rng(0)
    return random.normal(0, level, (steps, SAMPLES_PER_STEP)).astype(np.float32)


def heard(kind: type, level: float) -> list[np.ndarray]:
    """The encoder's state after loud noise and noise of a level, and an utterance's beginning."""
    # The search's step, which the shipped model has compiled already.
    stepper = kind(untrained().recognizer, beam=DEFAULT_BEAM).stepper(2)
    for step in [*sound(30, 0.3), *sound(10, level)]:
        stepper.step(step[None], ROW)
    stepper.restart(ROW)
    if kind is FastRecognizer:
        s = stepper.state
        return [one[1] for one in (s.conv1, s.conv2, s.hidden, s.cell, s.lstm_hidden, s.lstm_cell)]
    return [one[1].numpy() for one in tensors(stepper._state[1])]


@pytest.mark.parametrize("kind", [ReferenceRecognizer, FastRecognizer])
def test_an_encoder_begins_anew_in_a_pause_alone(kind: type) -> None:
    with torch.inference_mode():
        assert not any(one.any() for one in heard(kind, 1e-4))
        assert all(one.any() for one in heard(kind, 0.3))
