"""The encoder of LSTMs alone, against plain loops and by the streaming contract."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from cortado.model.config import EncoderConfig, FeatureConfig, RecognizerConfig
from cortado.model.encoder.encoder import Encoder
from cortado.model.encoder.lstm_encoder import LSTMEncoder
from cortado.model.features.framing import SAMPLES_PER_STEP
from cortado.model.recognizer import Recognizer

BANDS = 5
CONFIG = EncoderConfig(width=6, layers=3, kind="lstm")

Doubles = NDArray[np.float64]


def encoder() -> LSTMEncoder:
    torch.manual_seed(0)
    return LSTMEncoder(CONFIG, BANDS).eval()


def lstm_loop(module: nn.LSTM, x: Doubles) -> Doubles:
    """The (T, H) states of (T, H') inputs, frame by frame."""

    def sigmoid(z: Doubles) -> Doubles:
        return 1 / (1 + np.exp(-z))

    weight_in, weight_hidden, bias_in, bias_hidden = (
        parameter.detach().double().numpy() for parameter in module.all_weights[0]
    )
    hidden = cell = np.zeros(module.hidden_size)
    states = []
    for frame in x:
        gates = weight_in @ frame + weight_hidden @ hidden + bias_in + bias_hidden
        i, f, g, o = np.split(gates, 4)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        hidden = sigmoid(o) * np.tanh(cell)
        states.append(hidden)
    return np.array(states)


def test_every_second_state_is_dropped_behind_the_first_and_the_second_layer() -> None:
    module = encoder()
    features = torch.randn(1, 12, BANDS, 3)
    x = features[0].flatten(1).double().numpy()
    for layer, step in zip(module.layers, (2, 2, 1), strict=True):
        assert isinstance(layer, nn.LSTM)
        x = lstm_loop(layer, x)[step - 1 :: step]
    assert x.shape == (3, 6)
    np.testing.assert_allclose(module(features)[0].detach().numpy(), x, atol=1e-6)


def test_it_has_layers_to_drop_states_between() -> None:
    with pytest.raises(ValueError, match="expected at least 2 layers of kind 'lstm', got 1"):
        EncoderConfig(layers=1, kind="lstm")


def test_convolutions_halve_their_bands_twice() -> None:
    with pytest.raises(ValueError, match="expected a multiple of 4 bands for convolutions, got 41"):
        Encoder(EncoderConfig(), 41)
    config = RecognizerConfig(
        encoder=EncoderConfig(2, 8, 1), features=FeatureConfig(mels=40, normalisation="fixed")
    )
    samples = torch.randn(1, 4 * SAMPLES_PER_STEP)
    assert Recognizer(config).eval().encode(samples).shape == (1, 4, 8)
