"""Local attention around a predicted position, local-p (Luong et al. 2015, eqs. 9-10)."""

import torch
from torch import Tensor, nn

from cortado.model.attention.config import AttentionConfig
from cortado.model.attention.interface import Attended
from cortado.model.attention.local_m import within
from cortado.model.attention.soft import SoftAttention, SoftKeys, attended


class LocalP(SoftAttention):
    """A softmax over the frames within D of a predicted one, times a Gaussian around it.

    As in the paper frames count from 1: position p of S frames lies between 0 and S.
    """

    def __init__(self, config: AttentionConfig, query_width: int, key_width: int) -> None:
        super().__init__(config, query_width, key_width)
        self.reach = config.window
        self.hidden = nn.Linear(query_width, config.width, bias=False)
        self.position = nn.Linear(config.width, 1, bias=False)

    def attend(self, query: Tensor, keys: SoftKeys, memory: Tensor, noise: float = 0.0) -> Attended:
        """Return the windowed softmax times the Gaussian, whose deviation is D / 2."""
        lengths = keys.mask.sum(1, keepdim=True)
        predicted = lengths * self.position(self.hidden(query).tanh()).sigmoid()  # (B, 1)
        position = predicted - 1  # in frames from the first one, which is 1 in the paper
        weights = within(self.score(query, keys.scored), position.detach(), self.reach, keys.mask)
        frames = torch.arange(keys.mask.shape[1], device=query.device)
        # the position learns through the Gaussian alone: the window's edges have no gradient
        weights = weights * (-((frames - position) ** 2) / (2 * (self.reach / 2) ** 2)).exp()
        return attended(weights, keys, memory)
