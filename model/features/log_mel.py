"""Log-mel filterbank features with deltas, computed from a stream of samples.

A frame ends at the sample where its hop ends, so nothing is seen ahead of time but what the deltas
need.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from cortado.model.config import PLAIN, FeatureConfig
from cortado.model.features import filterbank
from cortado.model.features.framing import (
    DELTA_LOOKAHEAD,
    FFT,
    HOP,
    MELS,
    OVERLAP,
    POWER_FLOOR,
    PRIOR_FRAMES,
    WINDOW,
)
from cortado.model.features.running_mean import running_means
from cortado.model.layer import Layer, Serial


class LogMel(Layer):
    """Samples (B, N) to log-mel energies (B, N / HOP, F), with the whole energy where wanted."""

    ratio = HOP

    def __init__(self, config: FeatureConfig = PLAIN) -> None:
        super().__init__()
        bank = torch.from_numpy(filterbank.mel_bank(config.mels))
        if config.energy:
            bank = nn.functional.pad(bank, (0, 1), value=1.0)  # a band of all the spectrum
        self.register_buffer("bank", bank, persistent=False)
        self.register_buffer("window", torch.from_numpy(filterbank.window()), persistent=False)
        self.bank: Tensor
        self.window: Tensor

    def initial_state(self, batch: int) -> tuple[Tensor]:
        """Return the (S, OVERLAP) last samples before a stream: silence."""
        return (self.window.new_zeros(batch, OVERLAP),)

    def step(self, x: Tensor, state: tuple[Tensor]) -> tuple[Tensor, tuple[Tensor]]:
        """Return the (S, n / HOP, F) frames of the next (S, n) samples."""
        self.check_multiple(x)
        samples = torch.cat([state[0], x], 1)
        windows = samples.unfold(1, WINDOW, HOP) * self.window
        spectrum = torch.fft.rfft(windows, FFT)
        power = spectrum.real.square() + spectrum.imag.square()
        return (power @ self.bank + POWER_FLOOR).log(), (samples[:, -OVERLAP:],)


class NormalizerState(NamedTuple):
    """What the normalisation of a stream remembers."""

    mean: Tensor  # (S, F) running mean of the log-mel frames
    memory: Tensor  # (S, 3) what the running mean remembers beside itself (running_mean.py)
    frames: Tensor  # (S, 2 * DELTA_LOOKAHEAD, F) the last normalised frames


class Normalizer(Layer):
    """Log-mel frames (B, T, F) to normalised ones with their deltas (B, T, F, 3).

    Normalised by a causal running mean (the training set's as a prior), or by the fixed one. For a
    recogniser of speakers' statistics frames come normalised: see speaker.py. One that is
    made with a fixed mean standardises deltas too, by deviations of their own.
    """

    lookahead = DELTA_LOOKAHEAD

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

    def initial_state(self, batch: int) -> NormalizerState:
        """Return the state of streams before any audio."""
        return NormalizerState(
            self.mean.expand(batch, -1).clone(),
            self.mean.new_tensor([PRIOR_FRAMES, 0, 0]).repeat(batch, 1),
            self.mean.new_zeros(batch, 2 * DELTA_LOOKAHEAD, len(self.mean)),
        )

    def step(self, x: Tensor, state: NormalizerState) -> tuple[Tensor, NormalizerState]:
        """Return the (S, T, F, 3) features of the next (S, T, F) frames, and the new state."""
        mean, memory, frames = state
        if self.normalisation == "running":
            means, mean, memory = running_means(x, mean, memory, self.mean, self.deviation)
            x = (x - means) / self.deviation
        elif self.normalisation == "fixed":
            x = (x - self.mean) / self.deviation
        frames = torch.cat([frames, x], 1)
        features = frames.unfold(1, 2 * DELTA_LOOKAHEAD + 1, 1) @ self.taps
        if self.spread is not None:
            features = features / self.spread
        return features, NormalizerState(mean, memory, frames[:, -2 * DELTA_LOOKAHEAD :])


class Features(Serial):
    """Samples (B, N) to features (B, N / HOP, F, 3): log-mel frames, deltas, their deltas."""

    def __init__(self, config: FeatureConfig = PLAIN) -> None:
        super().__init__()
        self.logmel = LogMel(config)
        self.normalizer = Normalizer(config.normalisation, config.bands)

    @property
    def chain(self) -> Sequence[Layer]:
        """Log-mel frames, then their normalisation."""
        return self.logmel, self.normalizer

    def initial_state(self, batch: int) -> tuple[tuple[Tensor], NormalizerState]:
        """Return the state of streams before any audio."""
        self._check_statistics()
        return self.logmel.initial_state(batch), self.normalizer.initial_state(batch)

    def forward(self, x: Tensor) -> Tensor:
        """Return the features of whole utterances' samples."""
        self._check_statistics()
        return super().forward(x)

    def _check_statistics(self) -> None:
        if self.normalizer.normalisation == "speaker":
            raise ValueError(
                "expected a recogniser adapted to a speaker (model.adaptation), got one without "
                "statistics of anybody"
            )
