"""Hard monotonic attention (Raffel et al. 2017): a symbol attends to the frame it stops at."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from cortado.model.attention.config import AttentionConfig
from cortado.model.attention.expected_alignment import expected_alignment, first_alignment
from cortado.model.attention.interface import Attended
from cortado.model.attention.scores import MonotonicKeys, monotonic_energy
from cortado.model.attention.shared_matmul import SharedMatrix


class HardKeys(NamedTuple):
    """Keys of whole utterances."""

    monotonic: MonotonicKeys
    values: SharedMatrix  # (B, T, H) encoder frames
    mask: Tensor  # (B, T) true on frames, false on padding
    chunkwise: MonotonicKeys | None = None  # of the chunk energy, where there is one


class HardMonotonic(nn.Module):
    """Hard stops in serving, their expectation in training."""

    online = True
    window: int = 1

    def __init__(self, config: AttentionConfig, query_width: int, key_width: int) -> None:
        super().__init__()
        self.monotonic = monotonic_energy(config, query_width, key_width, config.bias)

    def keys(self, values: Tensor, mask: Tensor) -> HardKeys:
        """Return the keys of whole (B, T, H) utterances."""
        return HardKeys(self.monotonic.keys(values), SharedMatrix(values), mask)

    def first(self, mask: Tensor) -> Tensor:
        """Return alpha (B, T) before the first symbol."""
        return first_alignment(len(mask), mask.shape[1], mask.device)

    def attend(self, query: Tensor, keys: HardKeys, memory: Tensor, noise: float = 0.0) -> Attended:
        """Return the expectation over all stops; the memory is alpha (B, T)."""
        energies = self.monotonic(query, keys.monotonic)
        p = stopping(energies, keys.mask, noise)
        alpha, weights = self.expected(p, memory.to(energies), query, keys)
        context = keys.values.multiply(weights.unsqueeze(1)).squeeze(1)
        return Attended(context, weights, alpha, energies)

    def expected(
        self, p: Tensor, previous: Tensor, query: Tensor, keys: HardKeys
    ) -> tuple[Tensor, Tensor]:
        """Return alpha and the weights (B, T): where a symbol stops, and what it attends to.

        Args:
            p: (B, T) probability of stopping at a frame once there.
            previous: (B, T) alpha of the symbol before.
            query: (B, H) decoder state.
            keys: of the encoder frames.
        """
        alpha = expected_alignment(p, previous)
        return alpha, alpha

    def scan_key(self, value: Tensor) -> Tensor:
        """Return the scan's keys (S, d) of the newest (S, H) frame."""
        return self.monotonic.key(value)

    def chunk_key(self, value: Tensor) -> Tensor:
        """Return (S, 0): there is no chunk."""
        return value[:, :0]

    def energy(self, query: Tensor, key: Tensor) -> Tensor:
        """Return the energies (S,) of (S, H) queries at one frame."""
        return self.monotonic.at(query, key.unsqueeze(1)).squeeze(1)

    def context(self, query: Tensor, keys: Tensor, values: Tensor, valid: Tensor) -> Tensor:
        """Return the (S, H) newest frame."""
        return values[:, -1]

    def stopped(self, valid: Tensor, stops: Tensor) -> Tensor:
        """Return `valid` as it is: chunks may overlap."""
        return valid


def stopping(energies: Tensor, mask: Tensor, noise: float) -> Tensor:
    """Return p (B, T), the probability of stopping at a frame once there; 0 on padding.

    The noise, of this standard deviation, pushes p towards 0 and 1 in training (Raffel et al.
    2017, section 2.5).
    """
    noisy = energies + noise * torch.randn_like(energies) if noise else energies
    return noisy.sigmoid() * mask
