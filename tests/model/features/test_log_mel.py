"""Features against their formulas, written out with loops."""

import numpy as np
import pytest
import torch
import torchaudio
from numpy.typing import NDArray

from cortado.model.config import DecoderConfig, EncoderConfig, FeatureConfig, RecognizerConfig
from cortado.model.features.filterbank import delta_taps
from cortado.model.features.framing import (
    DELTA_LOOKAHEAD,
    DELTA_WINDOW,
    HOP,
    MELS,
    OVERLAP,
    POWER_FLOOR,
    PRIOR_FRAMES,
    SAMPLE_RATE,
    SAMPLES_PER_STEP,
    STEP_SECONDS,
    WINDOW,
)
from cortado.model.features.log_mel import LogMel, Normalizer
from cortado.model.recognizer import Recognizer
from cortado.tests.model.contract import randomised

Doubles = NDArray[np.float64]


def logmel_loop(samples: Doubles, mels: int, energy: bool) -> Doubles:
    """The log-mel frames of (N,) samples, one by one; the whole energy is one more band."""
    filters = torchaudio.functional.melscale_fbanks
    bank = filters(257, 20.0, 8000.0, mels, 16_000, mel_scale="slaney").double().numpy()
    bank = np.pad(bank, ((0, 0), (0, energy)), constant_values=1.0)
    heard = np.concatenate([np.zeros(240), samples])
    hann = [0.5 - 0.5 * np.cos(2 * np.pi * n / 400) for n in range(400)]
    frames = []
    for end in range(400, len(heard) + 1, 160):
        power = np.abs(np.fft.rfft(heard[end - 400 : end] * hann, 512)) ** 2
        frames.append(np.log(power @ bank + 1e-5))
    return np.array(frames)


def regression(x: Doubles) -> Doubles:
    """HTK's deltas of (T,) values, zero outside: sum_n n (x[t+n] - x[t-n]) / (2 sum_n n^2)."""
    padded = np.pad(x, 2)
    return np.array(
        [
            sum(n * (padded[t + 2 + n] - padded[t + 2 - n]) for n in (1, 2)) / (2 * (1 + 4))
            for t in range(len(x))
        ]
    )


def test_constants_are_those_of_the_design() -> None:
    assert (SAMPLE_RATE, HOP, WINDOW, SAMPLES_PER_STEP) == (16_000, 160, 400, 640)
    assert STEP_SECONDS == 0.04
    assert OVERLAP == WINDOW - HOP


@pytest.mark.parametrize(("mels", "energy"), [(MELS, False), (40, True)])
def test_log_mel_frames_equal_a_literal_loop(mels: int, energy: bool) -> None:
    samples = np.random.default_rng(0).normal(0, 0.1, 5 * HOP)
    found = LogMel(FeatureConfig(mels=mels, energy=energy))(torch.from_numpy(samples).float()[None])
    np.testing.assert_allclose(found[0].numpy(), logmel_loop(samples, mels, energy), atol=1e-4)


def test_digital_silence_lies_at_the_floor() -> None:
    assert torch.equal(LogMel()(torch.zeros(1, 320)), torch.full((1, 2, MELS), POWER_FLOOR).log())


def test_a_frame_ends_where_its_hop_ends() -> None:
    samples = torch.randn(1, 5 * HOP)
    changed = samples.clone()
    changed[:, 3 * HOP :] = 1
    one, other = LogMel()(samples), LogMel()(changed)
    assert torch.equal(one[:, :3], other[:, :3])
    assert (one[:, 3] != other[:, 3]).any()


def test_deltas_are_those_of_htk() -> None:
    assert (DELTA_WINDOW, DELTA_LOOKAHEAD) == (2, 4)
    x = np.random.default_rng(0).normal(size=30)
    padded = torch.from_numpy(np.pad(x, DELTA_LOOKAHEAD)).float()
    found = padded.unfold(0, 2 * DELTA_LOOKAHEAD + 1, 1) @ torch.from_numpy(delta_taps())
    # the delta of the padding beside x counts in the delta-delta at x's ends
    wide = np.pad(x, DELTA_LOOKAHEAD)
    delta = regression(wide)
    wanted = np.stack([wide, delta, regression(delta)], 1)[DELTA_LOOKAHEAD:-DELTA_LOOKAHEAD]
    np.testing.assert_allclose(found.numpy(), wanted, atol=1e-6)


def test_frames_are_normalised_by_the_mean_so_far_with_a_prior() -> None:
    torch.manual_seed(0)
    module = Normalizer()
    module.mean.normal_()
    module.deviation.uniform_(1, 2)
    logmel = torch.randn(1, 12, MELS)
    features = module(logmel)
    for t in range(12 - DELTA_LOOKAHEAD):
        heard = logmel[0, : t + 1].double().sum(0) + PRIOR_FRAMES * module.mean.double()
        wanted = (logmel[0, t] - heard / (PRIOR_FRAMES + t + 1)) / module.deviation
        found = features[0, t + DELTA_LOOKAHEAD, :, 0].double()
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module", params=["conv-lstm", "lstm"])
def recognizer(request: pytest.FixtureRequest) -> Recognizer:
    torch.manual_seed(0)
    encoder = EncoderConfig(channels=4, width=8, layers=3, kind=request.param)
    lstm = FeatureConfig(mels=40, energy=True, normalisation="fixed")
    features = lstm if request.param == "lstm" else FeatureConfig()
    config = RecognizerConfig(encoder=encoder, decoder=DecoderConfig(8, 4), features=features)
    module = Recognizer(config)
    randomised(module)
    return module


@pytest.mark.parametrize("frame", [0, 3, 5])
def test_nothing_changes_beyond_the_stated_lookahead_and_something_within(
    recognizer: Recognizer, frame: int
) -> None:
    """An encoder frame's own first feature frame ends 10 ms after the frame's begin."""
    torch.manual_seed(frame)
    samples = 0.1 * torch.randn(1, 10 * SAMPLES_PER_STEP)
    lookahead = recognizer.lookahead_ms * SAMPLE_RATE // 1000
    end = frame * SAMPLES_PER_STEP + HOP + lookahead
    given = frame + recognizer.delay_steps  # the step that gives the frame
    with torch.no_grad():
        before = recognizer.encode(samples)[0, given]
        beyond, within = samples.clone(), samples.clone()
        beyond[:, end:] = 0.5 * torch.randn_like(beyond[:, end:])
        within[:, end - HOP : end] = 0.5 * torch.randn(1, HOP)
        assert torch.equal(recognizer.encode(beyond)[0, given], before)
        assert not torch.equal(recognizer.encode(within)[0, given], before)


def test_other_bands_cover_the_same_frequencies() -> None:
    bank = LogMel(FeatureConfig(mels=40)).bank
    assert bank.shape == (257, 40)
    assert (bank.sum(0) > 0).all()
    with pytest.raises(ValueError, match="expected 1 to 256 mel bands, got 0"):
        FeatureConfig(mels=0)


def test_with_a_fixed_mean_frames_and_deltas_are_standardised() -> None:
    torch.manual_seed(0)
    module = Normalizer("fixed", 41)
    module.mean.normal_(-5, 1)
    module.deviation.uniform_(1, 3)
    assert module.spread is not None
    module.spread.uniform_(0.1, 1)
    logmel = torch.randn(1, 30, 41) - 5
    found = module(logmel)[0]
    frames = ((logmel[0] - module.mean) / module.deviation).double().numpy()
    for band in (0, 40):
        wide = np.pad(frames[:, band], DELTA_LOOKAHEAD)
        planes = np.stack([wide, regression(wide), regression(regression(wide))], 1)
        wanted = planes[: len(found)] / module.spread[band].double().numpy()
        np.testing.assert_allclose(found[4:, band].numpy(), wanted[4:], atol=1e-5)


def test_only_features_that_are_made_with_a_fixed_mean_keep_deviations_of_deltas() -> None:
    assert "spread" in Normalizer("fixed").state_dict()
    for normalisation in ("running", "speaker"):
        assert list(Normalizer(normalisation).state_dict()) == ["mean", "deviation"]
