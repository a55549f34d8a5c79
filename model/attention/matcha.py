"""Monotonic adaptive chunkwise attention, MAtChA (Chiu & Raffel 2018, appendix C).

A symbol attends softly to the frames from the last symbol's stop to its own: MoChA whose chunk is
as wide as the speaker makes it.
"""

import torch
from torch import Tensor

from cortado.model.attention.config import AttentionConfig
from cortado.model.attention.expected_span import expected_span
from cortado.model.attention.mocha import MoChA
from cortado.model.attention.monotonic import HardKeys


class MAtChA(MoChA):
    """Hard stops with everything since the last one in serving, their expectation in training.

    A stream keeps the last `span` frames only: a symbol that comes later than that after the one
    before does not see the beginning of the pause.
    """

    def __init__(self, config: AttentionConfig, query_width: int, key_width: int) -> None:
        super().__init__(config, query_width, key_width)
        self.window = config.span

    def expected(
        self, p: Tensor, previous: Tensor, query: Tensor, keys: HardKeys
    ) -> tuple[Tensor, Tensor]:
        """Return alpha and beta (B, T), over all pairs of stops."""
        return expected_span(p, previous, self.chunkwise(query, keys.chunkwise))

    def stopped(self, valid: Tensor, stops: Tensor) -> Tensor:
        """Return `valid` with only the newest frame left where there was a stop."""
        only = torch.zeros_like(valid)
        only[:, -1] = True
        return torch.where(stops.unsqueeze(1), only, valid)
