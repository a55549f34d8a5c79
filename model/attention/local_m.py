"""Local attention around a position that moves on evenly, local-m (Luong et al. 2015)."""

import torch
from torch import Tensor

from cortado.model.attention.config import AttentionConfig
from cortado.model.attention.interface import Attended
from cortado.model.attention.soft import SoftAttention, SoftKeys, attended


class LocalM(SoftAttention):
    """A softmax over the frames within D of frame i, times the stride, for symbol i."""

    def __init__(self, config: AttentionConfig, query_width: int, key_width: int) -> None:
        super().__init__(config, query_width, key_width)
        self.reach, self.stride = config.window, config.stride

    def first(self, mask: Tensor) -> Tensor:
        """Return the position (B, 1) of the first symbol, in frames from the first one."""
        return torch.zeros(len(mask), 1, device=mask.device)

    def attend(self, query: Tensor, keys: SoftKeys, memory: Tensor, noise: float = 0.0) -> Attended:
        """Return the softmax over the window; the memory is the next position (B, 1)."""
        weights = within(self.score(query, keys.scored), memory, self.reach, keys.mask)
        return attended(weights, keys, memory + self.stride)


def within(energies: Tensor, position: Tensor, reach: int, mask: Tensor) -> Tensor:
    """Return the softmax (B, T) of the energies at most `reach` frames from the position (B, 1).

    Where the window holds no frame of the utterance, which ends before it, all weights are 0.
    """
    frames = torch.arange(mask.shape[1], device=mask.device)
    near = ((frames - position).abs() <= reach) & mask
    # a row without frames gets a softmax over all of them, finite, and then none of it
    inside = near | ~near.any(1, keepdim=True)
    return energies.masked_fill(~inside, -torch.inf).softmax(1) * near
