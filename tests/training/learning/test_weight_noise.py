"""Noise on weights while gradients are formed, and none of it afterwards."""

import pytest
import torch

from cortado.model.recognizer import Recognizer
from cortado.tests.training.tiny import MODEL
from cortado.training.learning.stage import NoisyWeights
from cortado.training.learning.weight_noise import weight_noise


def weights(model: Recognizer) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in model.named_parameters()}


@pytest.mark.parametrize("on", ["recurrent", "all"])
def test_the_weights_that_are_named_are_noisy_and_put_back_to_the_bit(on: NoisyWeights) -> None:
    model = Recognizer(MODEL)
    before = weights(model)
    with weight_noise(model, 0.075, 3, on):
        noisy = weights(model)
    assert all(torch.equal(value, before[name]) for name, value in weights(model).items())
    changed = {name for name, value in noisy.items() if not torch.equal(value, before[name])}
    recurrent = {name for name in before if "lstm." in name or "embedding" in name}
    assert {"encoder.conv_lstm.recurrent", "encoder.conv_lstm.input.bias"} < recurrent
    assert changed == (recurrent if on == "recurrent" else set(before))
    noise = torch.cat([(noisy[name] - before[name]).flatten() for name in changed])
    assert float(noise.std()) == pytest.approx(0.075, rel=0.1)


def test_every_process_draws_the_same_noise_and_every_step_another() -> None:
    model = Recognizer(MODEL)
    found = []
    for seed in (1, 1, 2):
        with weight_noise(model, 0.1, seed):
            found.append(model.decoder.embedding.weight.detach().clone())
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_weights_are_put_back_after_an_error() -> None:
    model = Recognizer(MODEL)
    before = weights(model)
    with pytest.raises(RuntimeError, match="a broken batch"), weight_noise(model, 1.0, 0):
        raise RuntimeError("a broken batch")
    assert all(torch.equal(value, before[name]) for name, value in weights(model).items())
