"""Log-mel filterbank features with deltas, computed step by step from a stream of samples.

One step is the audio of one encoder frame: 640 new samples give 4 feature frames. A frame ends at
the sample where its hop ends, so nothing is seen ahead of time but what the deltas need.
"""

from typing import NamedTuple

import torch
import torchaudio
from torch import Tensor, nn

SAMPLE_RATE = 16_000  # Hz
HOP = SAMPLE_RATE // 100  # 10 ms
WINDOW = SAMPLE_RATE // 40  # 25 ms
FFT = 512
MELS = 80
FRAMES_PER_STEP = 4  # one encoder frame
SAMPLES_PER_STEP = FRAMES_PER_STEP * HOP  # 640
STEP_SECONDS = SAMPLES_PER_STEP / SAMPLE_RATE  # 0.04
OVERLAP = WINDOW - HOP  # samples that a frame shares with the audio before its hop

POWER_FLOOR = 1e-5  # below the noise of any microphone; digital silence gets log(POWER_FLOOR)
PRIOR_FRAMES = 100  # weight of the training set's mean in the running mean: 1 s
MEMORY_FRAMES = 2_000  # the running mean forgets what lies further back: 20 s

DELTA_WINDOW = 2  # frames on either side, as in HTK
DELTA_LOOKAHEAD = 2 * DELTA_WINDOW  # delta of delta


class FeatureState(NamedTuple):
    """What a stream's features remember."""

    samples: Tensor  # (S, OVERLAP) the last samples heard
    mean: Tensor  # (S, F) running mean of the log-mel frames
    counted: Tensor  # (S, 1) frames that the running mean counts, prior included
    frames: Tensor  # (S, 2 * DELTA_LOOKAHEAD, F) the last normalised frames


def delta_taps() -> Tensor:
    """Return (9, 3) filters that give a frame, its delta and its delta-delta from 9 frames.

    Source: HTK's regression formula, d_t = sum_n n (x_{t+n} - x_{t-n}) / (2 sum_n n^2).
    """
    offsets = torch.arange(-DELTA_WINDOW, DELTA_WINDOW + 1, dtype=torch.float64)
    delta = offsets / (offsets**2).sum()
    width = 2 * DELTA_LOOKAHEAD + 1
    taps = torch.zeros(width, 3, dtype=torch.float64)
    taps[DELTA_LOOKAHEAD, 0] = 1
    taps[DELTA_WINDOW : width - DELTA_WINDOW, 1] = delta
    for start, weight in enumerate(delta):
        taps[start : start + len(delta), 2] += weight * delta
    return taps.float()


class LogMel(nn.Module):
    """Log-mel energies of a waveform."""

    lookahead = 0

    def __init__(self) -> None:
        super().__init__()
        bank = torchaudio.functional.melscale_fbanks(
            FFT // 2 + 1, 20.0, SAMPLE_RATE / 2, MELS, SAMPLE_RATE, mel_scale="slaney"
        )
        self.register_buffer("bank", bank, persistent=False)
        self.register_buffer("window", torch.hann_window(WINDOW), persistent=False)
        self.bank: Tensor
        self.window: Tensor

    def forward(self, samples: Tensor) -> Tensor:
        """Return (B, N // HOP, F) log-mel frames of (B, N) samples, from silence on."""
        return self.frames(nn.functional.pad(samples, (OVERLAP, 0)))

    def frames(self, samples: Tensor) -> Tensor:
        """Return (B, (N - OVERLAP) // HOP, F) log-mel frames of (B, N) samples."""
        windows = samples.unfold(1, WINDOW, HOP) * self.window
        spectrum = torch.fft.rfft(windows, FFT)
        power = spectrum.real.square() + spectrum.imag.square()
        return (power @ self.bank + POWER_FLOOR).log()


class Normalizer(nn.Module):
    """Causal normalisation by a running mean (the training set's as a prior), then deltas."""

    lookahead = DELTA_LOOKAHEAD  # feature frames

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(MELS))
        self.register_buffer("deviation", torch.ones(MELS))
        self.register_buffer("taps", delta_taps(), persistent=False)
        self.mean: Tensor
        self.deviation: Tensor
        self.taps: Tensor

    def initial_state(self, streams: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return the mean, count and frames of `FeatureState` before any audio."""
        return (
            self.mean.expand(streams, -1).clone(),
            self.mean.new_full((streams, 1), PRIOR_FRAMES),
            self.mean.new_zeros(streams, 2 * DELTA_LOOKAHEAD, MELS),
        )

    def forward(self, logmel: Tensor) -> Tensor:
        """Return (B, T, F, 3) features of whole (B, T, F) log-mel utterances."""
        mean, count, frames = self.initial_state(len(logmel))
        return self._features(logmel, running_means(logmel, mean, count), frames)[0]

    def step(
        self, logmel: Tensor, mean: Tensor, count: Tensor, frames: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return (B, T, F, 3) features of the next (B, T, F) log-mel frames, and the new state."""
        means, mean, count = stepwise_means(logmel, mean, count)
        features, frames = self._features(logmel, means, frames)
        return features, mean, count, frames

    def _features(self, logmel: Tensor, means: Tensor, frames: Tensor) -> tuple[Tensor, Tensor]:
        frames = torch.cat([frames, (logmel - means) / self.deviation], 1)
        features = frames.unfold(1, 2 * DELTA_LOOKAHEAD + 1, 1) @ self.taps
        return features, frames[:, -2 * DELTA_LOOKAHEAD :]


def running_means(x: Tensor, mean: Tensor, count: Tensor) -> Tensor:
    """Return the means of `stepwise_means` from a stream's start, faster: by cumulative sums."""
    growing = min(x.shape[1], MEMORY_FRAMES - PRIOR_FRAMES)
    counts = count.unsqueeze(1) + torch.arange(1, growing + 1, device=x.device).unsqueeze(1)
    means = ((count * mean).unsqueeze(1) + x[:, :growing].cumsum(1)) / counts
    if growing < x.shape[1]:
        later, _, _ = stepwise_means(x[:, growing:], means[:, -1], counts[:, -1])
        means = torch.cat([means, later], 1)
    return means


def stepwise_means(x: Tensor, mean: Tensor, count: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the (B, T, F) running means of x up to and with each frame, the last mean and count.

    Every frame weighs 1 / count, where count grows by one a frame up to MEMORY_FRAMES.
    """
    means = []
    for frame in x.unbind(1):
        count = (count + 1).clamp(max=MEMORY_FRAMES)
        mean = mean + (frame - mean) / count
        means.append(mean)
    return torch.stack(means, 1), mean, count


class Features(nn.Module):
    """Samples to normalised log-mel features with deltas, as (frequency, channel) planes."""

    lookahead = DELTA_LOOKAHEAD  # feature frames

    def __init__(self) -> None:
        super().__init__()
        self.logmel = LogMel()
        self.normalizer = Normalizer()

    def initial_state(self, streams: int) -> FeatureState:
        """Return the state of streams that have heard nothing."""
        silence = self.normalizer.mean.new_zeros(streams, OVERLAP)
        return FeatureState(silence, *self.normalizer.initial_state(streams))

    def forward(self, samples: Tensor) -> Tensor:
        """Return (B, N // HOP, F, 3) features of (B, N) samples of whole utterances."""
        features: Tensor = self.normalizer(self.logmel(samples))
        return features

    def step(self, samples: Tensor, state: FeatureState) -> tuple[Tensor, FeatureState]:
        """Return (S, n // HOP, F, 3) features of the next (S, n) samples, n a multiple of HOP."""
        if samples.shape[1] % HOP:
            raise ValueError(f"expected a multiple of {HOP} samples, got {samples.shape[1]}")
        heard = torch.cat([state.samples, samples], 1)
        features, *normalizer = self.normalizer.step(self.logmel.frames(heard), *state[1:])
        return features, FeatureState(heard[:, -OVERLAP:], *normalizer)
