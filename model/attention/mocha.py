"""Monotonic chunkwise attention, MoChA (Chiu & Raffel 2018)."""

from typing import NamedTuple

import torch
from torch import Tensor

from cortado.model.attention.config import AttentionConfig
from cortado.model.attention.expected_alignment import expected_alignment
from cortado.model.attention.expected_chunk import expected_chunk
from cortado.model.attention.interface import Attended
from cortado.model.attention.monotonic import HardMonotonic, stopping
from cortado.model.attention.scores import MonotonicKeys, monotonic_energy
from cortado.model.attention.shared_matmul import SharedMatrix


class MochaKeys(NamedTuple):
    """Keys of whole utterances for both energies."""

    monotonic: MonotonicKeys
    chunkwise: MonotonicKeys
    values: SharedMatrix  # (B, T, H) encoder frames
    mask: Tensor  # (B, T) true on frames, false on padding


class MoChA(HardMonotonic):
    """Hard stops with a soft chunk before them in serving, their expectation in training."""

    def __init__(self, config: AttentionConfig, query_width: int, key_width: int) -> None:
        super().__init__(config, query_width, key_width)
        self.window = config.chunk
        self.chunkwise = monotonic_energy(config, query_width, key_width, 0.0)

    def keys(self, values: Tensor, mask: Tensor) -> MochaKeys:  # type: ignore[override]
        """Return the keys of whole (B, T, H) utterances."""
        monotonic, chunkwise = self.monotonic.keys(values), self.chunkwise.keys(values)
        return MochaKeys(monotonic, chunkwise, SharedMatrix(values), mask)

    def attend(  # type: ignore[override]
        self, query: Tensor, keys: MochaKeys, memory: Tensor, noise: float = 0.0
    ) -> Attended:
        """Return the expectation over all stops and their chunks; the memory is alpha (B, T)."""
        energies = self.monotonic(query, keys.monotonic)
        p, previous = stopping(energies, keys.mask, noise), memory.to(energies)
        alpha, beta = self.expected(p, previous, self.chunkwise(query, keys.chunkwise))
        context = keys.values.multiply(beta.unsqueeze(1)).squeeze(1)
        return Attended(context, beta, alpha, energies)

    def expected(self, p: Tensor, previous: Tensor, energies: Tensor) -> tuple[Tensor, Tensor]:
        """Return alpha and beta (B, T): where a symbol stops, and what it attends to.

        Args:
            p: (B, T) probability of stopping at a frame once there.
            previous: (B, T) alpha of the symbol before.
            energies: (B, T) of the frames in a chunk.
        """
        alpha = expected_alignment(p, previous)
        return alpha, expected_chunk(alpha, energies, self.window)

    def chunk_key(self, value: Tensor) -> Tensor:
        """Return the chunk's keys (S, d) of the newest (S, H) frame."""
        return self.chunkwise.key(value)

    def context(self, query: Tensor, keys: Tensor, values: Tensor, valid: Tensor) -> Tensor:
        """Return the (S, H) context: a softmax over the frames of the chunk that are valid."""
        energies = self.chunkwise.at(query, keys).masked_fill(~valid, -torch.inf)
        return torch.bmm(energies.softmax(1).unsqueeze(1), values).squeeze(1)
