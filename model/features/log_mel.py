"""Log-mel filterbank features with deltas, computed step by step from a stream of samples.

One step is the audio of one encoder frame: 640 new samples give 4 feature frames. A frame ends at
the sample where its hop ends, so nothing is seen ahead of time but what the deltas need.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from cortado.model.config import PLAIN as PLAIN
from cortado.model.config import FeatureConfig as FeatureConfig
from cortado.model.features import filterbank
from cortado.model.features.framing import DELTA_LOOKAHEAD as DELTA_LOOKAHEAD
from cortado.model.features.framing import DELTA_WINDOW as DELTA_WINDOW
from cortado.model.features.framing import FFT as FFT
from cortado.model.features.framing import FRAMES_PER_STEP as FRAMES_PER_STEP
from cortado.model.features.framing import HOP as HOP
from cortado.model.features.framing import MELS as MELS
from cortado.model.features.framing import OVERLAP as OVERLAP
from cortado.model.features.framing import POWER_FLOOR as POWER_FLOOR
from cortado.model.features.framing import PRIOR_FRAMES as PRIOR_FRAMES
from cortado.model.features.framing import SAMPLE_RATE as SAMPLE_RATE
from cortado.model.features.framing import SAMPLES_PER_STEP as SAMPLES_PER_STEP
from cortado.model.features.framing import STEP_SECONDS as STEP_SECONDS
from cortado.model.features.framing import WINDOW as WINDOW
from cortado.model.features.running_mean import MEMORY_FRAMES as MEMORY_FRAMES
from cortado.model.features.running_mean import running_means, stepwise_means


class FeatureState(NamedTuple):
    """What a stream's features remember."""

    samples: Tensor  # (S, OVERLAP) the last samples heard
    mean: Tensor  # (S, F) running mean of the log-mel frames
    counted: Tensor  # (S, 1) frames that the running mean counts, prior included
    frames: Tensor  # (S, 2 * DELTA_LOOKAHEAD, F) the last normalised frames


class LogMel(nn.Module):
    """Log-mel energies of a waveform, and its whole energy where it is wanted."""

    lookahead = 0

    def __init__(self, config: FeatureConfig = PLAIN) -> None:
        super().__init__()
        bank = torch.from_numpy(filterbank.mel_bank(config.mels))
        if config.energy:
            bank = nn.functional.pad(bank, (0, 1), value=1.0)  # a band of all the spectrum
        self.register_buffer("bank", bank, persistent=False)
        self.register_buffer("window", torch.from_numpy(filterbank.window()), persistent=False)
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
    """Normalisation, then deltas.

    By a causal running mean (the training set's as a prior), or by the fixed one. For a
    recogniser of speakers' statistics frames come normalised: see speaker.py. One that is
    made with a fixed mean standardises deltas too, by deviations of their own.
    """

    lookahead = DELTA_LOOKAHEAD  # feature frames

    def __init__(self, normalisation: str = "running", bands: int = MELS) -> None:
        super().__init__()
        self.normalisation = normalisation
        self.register_buffer("mean", torch.zeros(bands))
        self.register_buffer("deviation", torch.ones(bands))
        self.register_buffer("taps", torch.from_numpy(filterbank.delta_taps()), persistent=False)
        # of what the taps give: about one for the frames themselves, less for their deltas
        self.register_buffer("spread", torch.ones(bands, 3) if normalisation == "fixed" else None)
        self.mean: Tensor
        self.deviation: Tensor
        self.taps: Tensor
        self.spread: Tensor | None

    def initial_state(self, streams: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return the mean, count and frames of `FeatureState` before any audio."""
        return (
            self.mean.expand(streams, -1).clone(),
            self.mean.new_full((streams, 1), PRIOR_FRAMES),
            self.mean.new_zeros(streams, 2 * DELTA_LOOKAHEAD, len(self.mean)),
        )

    def forward(self, logmel: Tensor) -> Tensor:
        """Return (B, T, F, 3) features of whole (B, T, F) log-mel utterances."""
        frames = self.initial_state(len(logmel))[-1]
        running = self.normalisation == "running"
        means = running_means(logmel, self.mean, self.deviation) if running else self.mean
        return self._features(logmel, means, frames)[0]

    def step(
        self, logmel: Tensor, mean: Tensor, count: Tensor, frames: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return (B, T, F, 3) features of the next (B, T, F) log-mel frames, and the new state."""
        if self.normalisation == "running":
            prior = (self.mean, self.deviation)
            means, mean, count = stepwise_means(logmel, mean, count, *prior)
        else:
            means = mean.unsqueeze(1)
        features, frames = self._features(logmel, means, frames)
        return features, mean, count, frames

    def _features(self, logmel: Tensor, means: Tensor, frames: Tensor) -> tuple[Tensor, Tensor]:
        if self.normalisation != "speaker":
            logmel = (logmel - means) / self.deviation
        frames = torch.cat([frames, logmel], 1)
        features = frames.unfold(1, 2 * DELTA_LOOKAHEAD + 1, 1) @ self.taps
        if self.spread is not None:
            features = features / self.spread
        return features, frames[:, -2 * DELTA_LOOKAHEAD :]


class Features(nn.Module):
    """Samples to normalised log-mel features with deltas, as (frequency, channel) planes."""

    lookahead = DELTA_LOOKAHEAD  # feature frames

    def __init__(self, config: FeatureConfig = PLAIN) -> None:
        super().__init__()
        self.logmel = LogMel(config)
        self.normalizer = Normalizer(config.normalisation, config.bands)

    def initial_state(self, streams: int) -> FeatureState:
        """Return the state of streams that have heard nothing."""
        silence = self.normalizer.mean.new_zeros(streams, OVERLAP)
        return FeatureState(silence, *self.normalizer.initial_state(streams))

    def forward(self, samples: Tensor) -> Tensor:
        """Return (B, N // HOP, F, 3) features of (B, N) samples of whole utterances."""
        self._check_statistics()
        features: Tensor = self.normalizer(self.logmel(samples))
        return features

    def step(self, samples: Tensor, state: FeatureState) -> tuple[Tensor, FeatureState]:
        """Return (S, n // HOP, F, 3) features of the next (S, n) samples, n a multiple of HOP."""
        if samples.shape[1] % HOP:
            raise ValueError(f"expected a multiple of {HOP} samples, got {samples.shape[1]}")
        self._check_statistics()
        heard = torch.cat([state.samples, samples], 1)
        features, *normalizer = self.normalizer.step(self.logmel.frames(heard), *state[1:])
        return features, FeatureState(heard[:, -OVERLAP:], *normalizer)

    def _check_statistics(self) -> None:
        if self.normalizer.normalisation == "speaker":
            raise ValueError(
                "expected a recogniser adapted to a speaker (model.speaker), got one without "
                "statistics of anybody"
            )
