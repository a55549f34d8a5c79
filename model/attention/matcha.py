"""Monotonic adaptive chunkwise attention, MAtChA (Chiu & Raffel 2018, appendix C).

A symbol attends softly to the frames from the last symbol's stop to its own: MoChA whose chunk is
as wide as the speaker makes it.
"""

import torch
from torch import Tensor, nn

from model.alignment import first_alignment
from model.attention.config import AttentionConfig
from model.attention.mocha import MochaKeys
from model.attention.monotonic import stopping
from model.attention.shape import Attended
from model.scores import monotonic_energy
from model.shared_matmul import SharedMatrix
from model.spans import expected_span


class MAtChA(nn.Module):
    """Hard stops with everything since the last one in serving, their expectation in training.

    A stream keeps the last `span` frames only: a symbol that comes later than that after the one
    before does not see the beginning of the pause.
    """

    online = True

    def __init__(self, config: AttentionConfig, query_width: int, key_width: int) -> None:
        super().__init__()
        self.window = config.span
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
        """Return the expectation over all pairs of stops; the memory is alpha (B, T)."""
        energies = self.monotonic(query, keys.monotonic)
        p, previous = stopping(energies, keys.mask, noise), memory.to(energies)
        alpha, beta = expected_span(p, previous, self.chunkwise(query, keys.chunkwise))
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
        """Return the (S, H) context of the frames since the last stop.

        Args:
            query: (S, H) decoder states.
            keys: (S, w, d) chunk keys of the last w frames.
            values: (S, w, H) the last w frames.
            valid: (S, w) false before the frame of the last stop.
        """
        energies = self.chunkwise.at(query, keys).masked_fill(~valid, -torch.inf)
        return torch.bmm(energies.softmax(1).unsqueeze(1), values).squeeze(1)

    def stopped(self, valid: Tensor, stops: Tensor) -> Tensor:
        """Return `valid` with only the newest frame left where there was a stop."""
        only = torch.zeros_like(valid)
        only[:, -1] = True
        return torch.where(stops.unsqueeze(1), only, valid)
