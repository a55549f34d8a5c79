"""Monotonic chunkwise attention, MoChA (Chiu & Raffel 2018)."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from model.alignment import expected_alignment, first_alignment
from model.attention.config import AttentionConfig
from model.attention.monotonic import stopping
from model.attention.shape import Attended
from model.chunks import expected_chunk
from model.scores import MonotonicKeys, monotonic_energy
from model.shared_matmul import SharedMatrix


class MochaKeys(NamedTuple):
    """Whole utterances as both energies see them."""

    monotonic: MonotonicKeys
    chunkwise: MonotonicKeys
    values: SharedMatrix  # (B, T, H) encoder frames
    mask: Tensor  # (B, T) true on frames, false on padding


class MoChA(nn.Module):
    """Hard stops with a soft chunk before them in serving, their expectation in training."""

    online = True

    def __init__(self, config: AttentionConfig, query_width: int, key_width: int) -> None:
        super().__init__()
        self.chunk = self.window = config.chunk
        self.monotonic = monotonic_energy(config, query_width, key_width, config.bias)
        self.chunkwise = monotonic_energy(config, query_width, key_width, 0.0)

    def keys(self, values: Tensor, mask: Tensor) -> MochaKeys:
        """Return the keys of whole (B, T, H) utterances."""
        monotonic, chunkwise = self.monotonic.keys(values), self.chunkwise.keys(values)
        return MochaKeys(monotonic, chunkwise, SharedMatrix(values), mask)

    def first(self, mask: Tensor) -> Tensor:
        """Return alpha (B, T) before the first symbol."""
        return first_alignment(*mask.shape).to(mask.device)

    def attend(
        self, query: Tensor, keys: MochaKeys, memory: Tensor, noise: float = 0.0
    ) -> Attended:
        """Return the expectation over all stops and their chunks; the memory is alpha (B, T)."""
        energies = self.monotonic(query, keys.monotonic)
        alpha = expected_alignment(stopping(energies, keys.mask, noise), memory.to(energies))
        beta = expected_chunk(alpha, self.chunkwise(query, keys.chunkwise), self.chunk)
        context = keys.values.multiply(beta.unsqueeze(1)).squeeze(1)
        return Attended(context, beta, alpha, energies)

    def scan_key(self, value: Tensor) -> Tensor:
        """Return (S, d) what the scan asks of the newest (S, H) frame."""
        return self.monotonic.key(value)

    def chunk_key(self, value: Tensor) -> Tensor:
        """Return (S, d) what a chunk asks of the newest (S, H) frame."""
        return self.chunkwise.key(value)

    def energy(self, query: Tensor, key: Tensor) -> Tensor:
        """Return the energies (S,) of (S, H) queries at one frame."""
        return self.monotonic.at(query, key.unsqueeze(1)).squeeze(1)

    def context(self, query: Tensor, keys: Tensor, values: Tensor, valid: Tensor) -> Tensor:
        """Return the (S, H) context of a chunk that ends at the stop.

        Args:
            query: (S, H) decoder states.
            keys: (S, w, d) chunk keys of the last w frames.
            values: (S, w, H) the last w frames.
            valid: (S, w) false before the stream's first frame.
        """
        energies = self.chunkwise.at(query, keys).masked_fill(~valid, -torch.inf)
        return torch.bmm(energies.softmax(1).unsqueeze(1), values).squeeze(1)

    def stopped(self, valid: Tensor, stops: Tensor) -> Tensor:
        """Return `valid` as it is: chunks may overlap."""
        return valid
