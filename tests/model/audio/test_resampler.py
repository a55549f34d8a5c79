"""A stream's change of sample rate."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cortado.model.audio.resampler import Resampler


@given(
    rate=st.sampled_from([8000, 11025, 22050, 44100, 48000, 96000, 192000]),
    sizes=st.lists(st.integers(0, 5000), min_size=1, max_size=30),
)
@settings(max_examples=30)
def test_resampling_does_not_feel_the_chunking(rate: int, sizes: list[int]) -> None:
    signal = np.random.default_rng(0).normal(0, 0.1, rate // 2).astype(np.float32)
    whole, pieces = Resampler(rate), Resampler(rate)
    wanted = np.concatenate([whole.push(signal), whole.finish()])
    bounds = np.minimum(np.cumsum(sizes), len(signal))
    got = [pieces.push(part) for part in np.split(signal, bounds)]
    np.testing.assert_array_equal(np.concatenate([*got, pieces.finish()]), wanted)
    assert len(wanted) == pytest.approx(8000, abs=1)


def test_equal_rates_pass_samples_untouched() -> None:
    signal = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    resampler = Resampler(16000)
    np.testing.assert_array_equal(resampler.push(signal), signal)
    assert len(resampler.finish()) == 0


def test_what_the_target_rate_cannot_hold_is_filtered_away() -> None:
    time = np.arange(48000) / 48000
    resampler = Resampler(48000)
    above = np.sin(2 * np.pi * 9000 * time).astype(np.float32)
    assert np.abs(resampler.push(above)[2000:-2000]).max() < 1e-4


@pytest.mark.parametrize("rate", [-1, 0, 7999, 192001])
def test_a_rate_out_of_range_is_refused(rate: int) -> None:
    for rates in ((rate,), (16000, rate)):
        with pytest.raises(ValueError, match=f"8000 to 192000 Hz, got {rate}"):
            Resampler(*rates)


def test_a_resampler_refuses_what_it_cannot_mean() -> None:
    resampler = Resampler(48000)
    with pytest.raises(ValueError, match=r"expected samples of shape \(n,\), got \(2, 3\)"):
        resampler.push(np.zeros((2, 3), np.float32))
    resampler.finish()
    with pytest.raises(ValueError, match="after finish"):
        resampler.push(np.zeros(3, np.float32))
