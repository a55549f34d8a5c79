"""Monotonic chunkwise attention, MoChA (Chiu & Raffel 2018)."""

import torch
from torch import Tensor

from cortado.model.attention.config import AttentionConfig
from cortado.model.attention.expected_alignment import expected_alignment
from cortado.model.attention.expected_chunk import expected_chunk
from cortado.model.attention.monotonic import HardKeys, HardMonotonic
from cortado.model.attention.scores import monotonic_energy


class MoChA(HardMonotonic):
    """Hard stops with a soft chunk before them in serving, their expectation in training."""

    def __init__(self, config: AttentionConfig, query_width: int, key_width: int) -> None:
        super().__init__(config, query_width, key_width)
        self.window = config.chunk
        self.chunkwise = monotonic_energy(config, query_width, key_width, 0.0)

    def keys(self, values: Tensor, mask: Tensor) -> HardKeys:
        """Return the keys of whole (B, T, H) utterances, for both energies."""
        return super().keys(values, mask)._replace(chunkwise=self.chunkwise.keys(values))

    def expected(
        self, p: Tensor, previous: Tensor, query: Tensor, keys: HardKeys
    ) -> tuple[Tensor, Tensor]:
        """Return alpha and beta (B, T): where a symbol stops, and what its chunk weighs."""
        alpha = expected_alignment(p, previous)
        return alpha, expected_chunk(alpha, self.chunkwise(query, keys.chunkwise), self.window)

    def chunk_key(self, value: Tensor) -> Tensor:
        """Return the chunk's keys (S, d) of the newest (S, H) frame."""
        return self.chunkwise.key(value)

    def context(self, query: Tensor, keys: Tensor, values: Tensor, valid: Tensor) -> Tensor:
        """Return the (S, H) context: a softmax over the frames of the chunk that are valid."""
        energies = self.chunkwise.at(query, keys).masked_fill(~valid, -torch.inf)
        return torch.bmm(energies.softmax(1).unsqueeze(1), values).squeeze(1)
