"""Soft attention: a softmax over all frames (Bahdanau et al. 2015; Luong et al. 2015, global)."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from cortado.model.attention.config import AttentionConfig
from cortado.model.attention.interface import Attended
from cortado.model.attention.scores import ScoreKeys, score
from cortado.model.attention.shared_matmul import SharedMatrix


class SoftKeys(NamedTuple):
    """Keys of whole utterances."""

    scored: ScoreKeys
    values: SharedMatrix  # (B, T, H) encoder frames
    mask: Tensor  # (B, T) true on frames, false on padding


class SoftAttention(nn.Module):
    """A softmax over all frames, in training and in decoding."""

    online = False

    def __init__(self, config: AttentionConfig, query_width: int, key_width: int) -> None:
        super().__init__()
        self.score = score(config, query_width, key_width)

    def keys(self, values: Tensor, mask: Tensor) -> SoftKeys:
        """Return the keys of whole (B, T, H) utterances."""
        return SoftKeys(self.score.keys(values), SharedMatrix(values), mask)

    def first(self, mask: Tensor) -> Tensor:
        """Return (B, 0): a symbol's weights do not depend on those before."""
        return mask.new_zeros(len(mask), 0)

    def attend(self, query: Tensor, keys: SoftKeys, memory: Tensor, noise: float = 0.0) -> Attended:
        """Return the softmax over all frames."""
        energies = self.score(query, keys.scored).masked_fill(~keys.mask, -torch.inf)
        return attended(energies.softmax(1), keys, memory)


def attended(weights: Tensor, keys: SoftKeys, memory: Tensor) -> Attended:
    """Return the context of weights (B, T), and what goes with it."""
    context = keys.values.multiply(weights.unsqueeze(1)).squeeze(1)
    return Attended(context, weights, memory, None)
