"""Every layer, and the whole recogniser, keeps the streaming contract."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cortado.model.decoder.decoder import DecoderConfig
from cortado.model.encoder.conv_lstm import ConvLSTM
from cortado.model.encoder.conv_lstm_encoder import Encoder, EncoderConfig
from cortado.model.encoder.convolution import StreamingConv
from cortado.model.encoder.recurrent import RecurrentLayer
from cortado.model.features.log_mel import (
    FRAMES_PER_STEP,
    HOP,
    MELS,
    MEMORY_FRAMES,
    OVERLAP,
    PRIOR_FRAMES,
    SAMPLE_RATE,
    SAMPLES_PER_STEP,
    Features,
    LogMel,
    Normalizer,
)
from cortado.model.features.running_mean import BOUND, DRAWN, running_means, stepwise_means
from cortado.model.recognizer import Recognizer, RecognizerConfig
from cortado.tests.model.contract import Layer, check, close, framewise, randomised

SMALL = EncoderConfig(channels=3, width=6, layers=2)
cuts = st.lists(st.integers(1, 5), min_size=1, max_size=6)
few = settings(max_examples=8, deadline=None)


def seeded(seed: int = 0) -> None:
    torch.manual_seed(seed)


def conv(stride: int) -> Layer:
    """A convolution on (B, T, C, F)."""
    module = randomised(StreamingConv(2, 3, stride))
    assert isinstance(module, StreamingConv)

    def step(x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        y, state = module.step(x.transpose(1, 2), state)
        return y.transpose(1, 2), state

    return Layer(
        lambda x: module(x.transpose(1, 2)).transpose(1, 2),
        step,
        lambda streams: module.initial_state(streams, 6),
        stride,
    )


@pytest.mark.parametrize("stride", [1, 2])
@given(cuts=cuts)
@few
def test_a_convolution_streams(stride: int, cuts: list[int]) -> None:
    seeded()
    check(conv(stride), torch.randn(3, 12, 2, 6), cuts)


@given(cuts=cuts)
@few
def test_the_convolutional_lstm_streams(cuts: list[int]) -> None:
    seeded()
    module = ConvLSTM(2, 3)
    step = framewise(lambda x, state: module.step(x[:, 0], state), 1)
    layer = Layer(module, step, lambda streams: module.initial_state(streams, 5))
    check(layer, torch.randn(3, 9, 5, 2), cuts)


@given(cuts=cuts)
@few
def test_a_recurrent_layer_streams(cuts: list[int]) -> None:
    seeded()
    module = randomised(RecurrentLayer(4, 5))
    assert isinstance(module, RecurrentLayer)
    step = framewise(lambda x, state: module.step(x[:, 0], state), 1)
    check(Layer(module, step, module.initial_state), torch.randn(3, 9, 4), cuts)


@given(cuts=cuts)
@few
def test_log_mel_frames_stream(cuts: list[int]) -> None:
    seeded()
    module = LogMel()

    def step(x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        heard = torch.cat([state, x], 1)
        return module.frames(heard), heard[:, -OVERLAP:]

    layer = Layer(module, step, lambda streams: torch.zeros(streams, OVERLAP), HOP)
    check(layer, 0.1 * torch.randn(3, 10 * HOP), cuts)


def normalizer() -> Normalizer:
    module = Normalizer()
    module.mean.normal_(-5, 1)
    module.deviation.uniform_(1, 3)
    return module


def normalizer_layer(module: Normalizer) -> Layer:
    def step(x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        y, *new = module.step(x, *state)
        return y, tuple(new)

    return Layer(module, step, module.initial_state)


@given(cuts=cuts)
@few
def test_the_normaliser_streams(cuts: list[int]) -> None:
    seeded()
    check(normalizer_layer(normalizer()), torch.randn(3, 14, MELS) - 5, cuts)


@given(cuts=st.lists(st.integers(1, 700), min_size=1, max_size=4))
@settings(max_examples=2, deadline=None)
def test_the_normaliser_streams_beyond_its_memory(cuts: list[int]) -> None:
    seeded()
    frames = MEMORY_FRAMES - PRIOR_FRAMES + 60
    x = torch.randn(2, frames, MELS) + torch.linspace(-8, 0, frames).unsqueeze(1)
    x[1, frames // 2 :] -= 12  # a drop, behind which the mean begins anew
    check(normalizer_layer(normalizer()), x, cuts)


def test_the_running_mean_forgets_beyond_its_memory() -> None:
    x = torch.cat([torch.zeros(1, 4 * MEMORY_FRAMES, 1), torch.ones(1, MEMORY_FRAMES, 1)], 1)
    prior, deviation = torch.zeros(1), torch.ones(1)
    means = running_means(x, prior, deviation)
    count = torch.full((1, 1), float(PRIOR_FRAMES))
    close(means, stepwise_means(x, prior.unsqueeze(0), count, prior, deviation)[0])
    forgotten = (1 - 1 / MEMORY_FRAMES) ** MEMORY_FRAMES
    assert means[0, -1, 0].item() == pytest.approx(1 - forgotten, rel=1e-3)


def test_the_running_mean_begins_anew_where_what_was_loud_is_over() -> None:
    prior, deviation = torch.randn(MELS), 1 + torch.rand(MELS)
    loud = torch.randn(1, 500, MELS) + prior + 3 * deviation
    speech = torch.randn(1, 400, MELS) + prior
    means = running_means(torch.cat([loud, speech], 1), prior, deviation)
    close(means[:, 500:], running_means(speech, prior, deviation))
    for fall, anew in ((1.95, False), (2.05, True)):
        fallen = torch.cat([loud, means[:, 499:500] - fall * deviation], 1)
        mean = running_means(fallen, prior, deviation)[0, -1]
        assert ((mean - prior) / deviation < 1).all() == anew


def test_the_running_mean_follows_a_level_and_not_a_shape() -> None:
    prior, deviation = torch.randn(MELS), 1 + torch.rand(MELS)
    quiet = (prior - 1.5 * deviation + 0.1 * torch.randn(1, 2000, MELS))[:, -1500:]
    mean = running_means(quiet, prior, deviation)[0, -1]
    assert (((mean - prior) / deviation + 1.5).abs() < 0.1).all()
    low = torch.arange(MELS) < MELS // 4
    hum = prior + 2 * low * deviation + 0.1 * torch.randn(1, 3000, MELS)
    away = (running_means(hum, prior, deviation)[0, -1] - prior) / deviation
    level = away.mean()
    # where what a frame adds and what is taken back are the same
    balance = (2 / MEMORY_FRAMES + DRAWN * (level + BOUND)) / (1 / MEMORY_FRAMES + DRAWN)
    torch.testing.assert_close(away[low].mean(), balance, rtol=0.05, atol=0)
    assert away[low].mean() - away[~low].mean() < 1


def test_features_forget_noise_as_loud_as_can_be_at_once() -> None:
    torch.manual_seed(0)
    features = Features()
    speech = 0.02 * torch.randn(1, 8 * SAMPLE_RATE)
    features.normalizer.mean.copy_(features.logmel(speech).mean((0, 1)))
    clipping = (3 * torch.randn(1, 20 * SAMPLE_RATE)).clamp(-1, 1)
    fresh = features(speech)[:, 20:, :, 0]
    behind = features(torch.cat([clipping, speech], 1))[:, -fresh.shape[1] :, :, 0]
    assert (behind - fresh).abs().max() < 0.2  # the frames at the edge are of both


@given(cuts=cuts)
@few
def test_features_stream(cuts: list[int]) -> None:
    seeded()
    module = Features()
    module.normalizer = normalizer()
    layer = Layer(module, module.step, module.initial_state, HOP)
    check(layer, 0.1 * torch.randn(3, 12 * HOP), cuts)


@pytest.mark.parametrize("third", [True, False])
@given(cuts=cuts)
@few
def test_the_encoder_streams(third: bool, cuts: list[int]) -> None:
    seeded()
    module = randomised(Encoder(replace(SMALL, third=third)))
    assert isinstance(module, Encoder)
    step = framewise(module.step, FRAMES_PER_STEP)
    layer = Layer(module, step, module.initial_state, FRAMES_PER_STEP)
    check(layer, torch.randn(3, 8 * FRAMES_PER_STEP, MELS, 3), cuts)


def recognizer(seed: int = 0) -> Recognizer:
    seeded(seed)
    module = Recognizer(RecognizerConfig(encoder=SMALL, decoder=DecoderConfig(8, 4)))
    randomised(module)
    module.features.normalizer = normalizer()
    return module


@given(cuts=cuts)
@few
def test_the_whole_recogniser_streams(cuts: list[int]) -> None:
    module = recognizer()

    def step(samples: Tensor, state: tuple[Any, Any]) -> tuple[Tensor, tuple[Any, Any]]:
        features, first = module.features.step(samples, state[0])
        frame, second = module.encoder.step(features, state[1])
        return frame, (first, second)

    layer = Layer(
        module.encode,
        framewise(step, SAMPLES_PER_STEP),
        lambda streams: (
            module.features.initial_state(streams),
            module.encoder.initial_state(streams),
        ),
        SAMPLES_PER_STEP,
    )
    check(layer, 0.1 * torch.randn(3, 8 * SAMPLES_PER_STEP), cuts)


def test_log_mel_frames_encode_as_their_samples_do() -> None:
    module = recognizer()
    samples = 0.1 * torch.randn(2, 8 * SAMPLES_PER_STEP)
    close(module.encode_logmel(module.features.logmel(samples)), module.encode(samples))


def test_a_step_of_another_length_is_refused() -> None:
    module = recognizer()
    with pytest.raises(ValueError, match=r"expected a multiple of 160 samples, got 100"):
        module.features.step(torch.zeros(1, 100), module.features.initial_state(1))
    with pytest.raises(ValueError, match=r"expected 4 frames, got 3"):
        module.encoder.step(torch.zeros(1, 3, MELS, 3), module.encoder.initial_state(1))
    layer = module.encoder.conv1
    with pytest.raises(ValueError, match=r"expected a multiple of 2 frames, got 3"):
        layer.step(torch.zeros(1, 3, 3, MELS), layer.initial_state(1, MELS))
