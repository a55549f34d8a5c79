"""Local attention around a predicted position, local-p (Luong et al. 2015, eqs. 9-10)."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from cortado.model.attention.config import AttentionConfig
from cortado.model.attention.interface import Attended
from cortado.model.attention.local_m import within
from cortado.model.attention.scores import ScoreKeys, score
from cortado.model.attention.shared_matmul import SharedMatrix


class LocalKeys(NamedTuple):
    """Whole utterances as the score sees them."""

    scored: ScoreKeys
    values: SharedMatrix  # (B, T, H) encoder frames
    mask: Tensor  # (B, T) true on frames, false on padding
    lengths: Tensor  # (B, 1) encoder frames


class LocalP(nn.Module):
    """A softmax over the frames within D of a predicted one, times a Gaussian around it."""

    online = False

    def __init__(self, config: AttentionConfig, query_width: int, key_width: int) -> None:
        super().__init__()
        self.reach = config.window
        self.score = score(config, query_width, key_width)
        self.hidden = nn.Linear(query_width, config.width, bias=False)
        self.position = nn.Linear(config.width, 1, bias=False)

    def keys(self, values: Tensor, mask: Tensor) -> LocalKeys:
        """Return the keys of whole (B, T, H) utterances."""
        lengths = mask.sum(1, keepdim=True)
        return LocalKeys(self.score.keys(values), SharedMatrix(values), mask, lengths)

    def first(self, mask: Tensor) -> Tensor:
        """Return (B, 0): a symbol's position does not rest on those before."""
        return mask.new_zeros(len(mask), 0)

    def attend(
        self, query: Tensor, keys: LocalKeys, memory: Tensor, noise: float = 0.0
    ) -> Attended:
        """Return the windowed softmax times the Gaussian, whose deviation is D / 2."""
        position = keys.lengths * self.position(self.hidden(query).tanh()).sigmoid()  # (B, 1)
        weights = within(self.score(query, keys.scored), position.detach(), self.reach, keys.mask)
        frames = torch.arange(keys.mask.shape[1], device=query.device)
        # the position learns through the Gaussian alone: the window's edges have no gradient
        weights = weights * (-((frames - position) ** 2) / (2 * (self.reach / 2) ** 2)).exp()
        context = keys.values.multiply(weights.unsqueeze(1)).squeeze(1)
        return Attended(context, weights, memory, None)
