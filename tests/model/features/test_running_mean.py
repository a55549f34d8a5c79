"""The running mean that features are normalised by, compiled and as it is defined."""

import pytest
import torch
from torch import Tensor

import cortado.model.compiled.operations  # noqa: F401
from cortado.model.features.framing import (
    BOUND,
    DRAWN,
    HOP,
    MELS,
    MEMORY_FRAMES,
    PRIOR_FRAMES,
    SAMPLE_RATE,
)
from cortado.model.features.log_mel import Features
from cortado.model.features.running_mean import running_means
from cortado.model.operation import plain
from cortado.tests import needs
from cortado.tests.model.contract import close
from cortado.tests.model.interpreted import interpreted

FRAMES = SAMPLE_RATE // HOP  # a second


def whole(x: Tensor, prior: Tensor, deviation: Tensor) -> Tensor:
    """The means of (B, T, F) frames from a stream's start."""
    memory = torch.tensor([[float(PRIOR_FRAMES), 0.0, 0.0]]).expand(len(x), -1)
    return running_means(x, prior.expand(len(x), -1), memory, prior, deviation)[0]


def test_the_running_mean_forgets_beyond_its_memory() -> None:
    x = torch.cat([torch.zeros(1, 4 * MEMORY_FRAMES, 1), torch.ones(1, MEMORY_FRAMES, 1)], 1)
    prior, deviation = torch.zeros(1), torch.ones(1)
    means = whole(x, prior, deviation)
    with plain():
        close(means, whole(x, prior, deviation))
    forgotten = (1 - 1 / MEMORY_FRAMES) ** MEMORY_FRAMES
    assert means[0, -1, 0].item() == pytest.approx(1 - forgotten, rel=1e-3)


def test_the_running_mean_begins_anew_where_what_was_loud_is_over() -> None:
    prior, deviation = torch.randn(MELS), 1 + torch.rand(MELS)
    loud = torch.randn(1, 500, MELS) + prior + 3 * deviation
    speech = torch.randn(1, 400, MELS) + prior
    means = whole(torch.cat([loud, speech], 1), prior, deviation)
    close(means[:, 500:], whole(speech, prior, deviation))
    for fall, anew in ((1.95, False), (2.05, True)):
        fallen = torch.cat([loud, means[:, 499:500] - fall * deviation], 1)
        mean = whole(fallen, prior, deviation)[0, -1]
        assert ((mean - prior) / deviation < 1).all() == anew


def test_the_running_mean_rests_in_a_pause_and_not_for_a_soft_voice() -> None:
    torch.manual_seed(0)
    prior, deviation = torch.randn(MELS), 1 + torch.rand(MELS)

    def level(heights: Tensor) -> float:
        """How far below the prior the mean is behind frames of such heights."""
        frames = heights[:, None] + 0.1 * torch.randn(1, len(heights), MELS)
        mean = whole(prior + frames * deviation, prior, deviation)[0, -1]
        return ((mean - prior) / deviation).mean().item()

    pause = torch.full((20 * FRAMES,), -1.5)
    speech = 0.8 * torch.sin(torch.arange(20.0 * FRAMES) / 8)  # two syllables a second
    assert level(torch.cat([speech, pause])) > -0.5
    assert level(speech - 1) < -0.8
    assert level(torch.cat([speech, pause, speech - 1])) < -0.8


def test_the_running_mean_follows_a_level_and_not_a_shape() -> None:
    prior, deviation = torch.randn(MELS), 1 + torch.rand(MELS)
    loud = prior + 1.5 * deviation + 0.1 * torch.randn(1, 1500, MELS)
    mean = whole(loud, prior, deviation)[0, -1]
    assert (((mean - prior) / deviation - 1.5).abs() < 0.1).all()
    low = torch.arange(MELS) < MELS // 4
    hum = prior + 2 * low * deviation + 0.1 * torch.randn(1, 3000, MELS)
    away = (whole(hum, prior, deviation)[0, -1] - prior) / deviation
    level = away.mean()
    # where what a frame adds and what is taken back are the same
    balance = (2 / MEMORY_FRAMES + DRAWN * (level + BOUND)) / (1 / MEMORY_FRAMES + DRAWN)
    torch.testing.assert_close(away[low].mean(), balance, rtol=0.05, atol=0)
    assert away[low].mean() - away[~low].mean() < 1


def unsteady() -> tuple[Tensor, ...]:
    """What running means are asked of: frames that begin anew, and such as are held."""
    torch.manual_seed(0)
    prior, deviation = torch.randn(MELS), 0.5 + torch.rand(MELS)
    x = 2 * torch.randn(3, 60, MELS)
    x[1, 20:30] += 12
    x[1, 30:] -= 9
    x[2, 10:, : MELS // 4] += 8
    x[0, 30:] = prior - 0.9 * deviation + 0.1 * x[0, 30:]
    memory = torch.tensor([[50.0, 30.0, -1.0], [300.0, 0.0, 1.0], [20.0, 60.0, 0.0]])
    return x, torch.randn(3, MELS), memory, prior, deviation


def test_the_triton_kernel_gives_what_is_defined() -> None:
    asked = unsteady()
    with plain():
        wanted = running_means(*asked)
    with interpreted("running_mean_triton") as kernels:
        found = kernels.running_means(*asked)
    for one, other in zip(found, wanted, strict=True):
        close(one, other)


@needs.gpu
def test_a_gpu_gives_what_is_defined() -> None:
    asked = unsteady()
    found = running_means(*(one.cuda() for one in asked))
    with plain():
        for one, other in zip(found, running_means(*asked), strict=True):
            close(one.cpu(), other)


def test_features_forget_noise_as_loud_as_can_be_at_once() -> None:
    torch.manual_seed(0)
    features = Features()
    speech = 0.02 * torch.randn(1, 8 * SAMPLE_RATE)
    features.normalizer.mean.copy_(features.logmel(speech).mean((0, 1)))
    clipping = (3 * torch.randn(1, 20 * SAMPLE_RATE)).clamp(-1, 1)
    fresh = features(speech)[:, 20:, :, 0]
    behind = features(torch.cat([clipping, speech], 1))[:, -fresh.shape[1] :, :, 0]
    assert (behind - fresh).abs().max() < 0.2  # the frames at the edge are of both
