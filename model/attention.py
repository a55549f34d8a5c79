"""Monotonic chunkwise attention, MoChA (Chiu & Raffel 2018)."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from model.alignment import expected_alignment
from model.chunks import expected_chunk
from model.energy import AdditiveEnergy, Keys
from model.shared_matmul import SharedMatrix


@dataclass(frozen=True)
class AttentionConfig:
    """Sizes and initial values of MoChA; the defaults are the paper's for WSJ, r apart."""

    width: int = 128  # d, of both energies
    chunk: int = 2  # w, encoder frames that a symbol attends to; 1 is hard monotonic attention
    bias: float = -1.0  # r, initial bias of the monotonic energy; the paper's -4 wants more data


class MochaKeys(NamedTuple):
    """Whole utterances as both energies see them."""

    monotonic: Keys
    chunkwise: Keys
    values: SharedMatrix  # (B, T, H) encoder frames


class MoChA(nn.Module):
    """Monotonic chunkwise attention: hard stops in serving, their expectation in training."""

    def __init__(self, config: AttentionConfig, query_width: int, key_width: int) -> None:
        super().__init__()
        self.chunk = config.chunk
        self.monotonic = AdditiveEnergy(query_width, key_width, config.width, config.bias)
        self.chunkwise = AdditiveEnergy(query_width, key_width, config.width, 0.0)

    def expected(
        self,
        query: Tensor,
        keys: MochaKeys,
        previous: Tensor,
        mask: Tensor,
        noise: float = 0.0,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the expected context (B, H), alpha (B, T) and monotonic energies (B, T).

        Args:
            query: (B, H) decoder state before this symbol.
            keys: of the encoder frames.
            previous: (B, T) alpha of the symbol before.
            mask: (B, T) true on frames, false on padding.
            noise: standard deviation of the noise that pushes p towards 0 and 1 in training.
        """
        energies = self.monotonic(query, keys.monotonic)
        noisy = energies + noise * torch.randn_like(energies) if noise else energies
        p = noisy.sigmoid() * mask
        alpha = expected_alignment(p, previous)
        chunk_energies = self.chunkwise(query, keys.chunkwise)
        beta = expected_chunk(alpha, chunk_energies, self.chunk)
        return keys.values.multiply(beta.unsqueeze(1)).squeeze(1), alpha, energies

    def keys(self, values: Tensor) -> MochaKeys:
        """Return the keys of whole (B, T, H) utterances."""
        monotonic, chunkwise = self.monotonic.keys(values), self.chunkwise.keys(values)
        return MochaKeys(monotonic, chunkwise, SharedMatrix(values))

    def stops(self, query: Tensor, key: Tensor) -> Tensor:
        """Return (S,) true where p >= 0.5 at this frame (Chiu & Raffel 2018, algorithm 1)."""
        return self.monotonic.at(query, key.unsqueeze(1)).squeeze(1) >= 0

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
