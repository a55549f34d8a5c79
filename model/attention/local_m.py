"""Local attention around a position that moves on evenly, local-m (Luong et al. 2015)."""

import torch
from torch import Tensor, nn

from cortado.model.attention.config import AttentionConfig
from cortado.model.attention.interface import Attended
from cortado.model.attention.scores import score
from cortado.model.attention.shared_matmul import SharedMatrix
from cortado.model.attention.soft import SoftKeys


class LocalM(nn.Module):
    """A softmax over the frames within D of frame i, times the stride, for symbol i."""

    online = False

    def __init__(self, config: AttentionConfig, query_width: int, key_width: int) -> None:
        super().__init__()
        self.reach, self.stride = config.window, config.stride
        self.score = score(config, query_width, key_width)

    def keys(self, values: Tensor, mask: Tensor) -> SoftKeys:
        """Return the keys of whole (B, T, H) utterances."""
        return SoftKeys(self.score.keys(values), SharedMatrix(values), mask)

    def first(self, mask: Tensor) -> Tensor:
        """Return the position (B, 1) of the first symbol, in frames from the first one."""
        return torch.zeros(len(mask), 1, device=mask.device)

    def attend(self, query: Tensor, keys: SoftKeys, memory: Tensor, noise: float = 0.0) -> Attended:
        """Return the softmax over the window; the memory is the next position (B, 1)."""
        weights = within(self.score(query, keys.scored), memory, self.reach, keys.mask)
        context = keys.values.multiply(weights.unsqueeze(1)).squeeze(1)
        return Attended(context, weights, memory + self.stride, None)


def within(energies: Tensor, position: Tensor, reach: int, mask: Tensor) -> Tensor:
    """Return the softmax (B, T) of the energies at most `reach` frames from the position (B, 1).

    Where the window holds no frame of the utterance, which ends before it, all weights are 0.
    """
    frames = torch.arange(mask.shape[1], device=mask.device)
    near = ((frames - position).abs() <= reach) & mask
    # a row without frames gets a softmax over all of them, finite, and then none of it
    inside = near | ~near.any(1, keepdim=True)
    return energies.masked_fill(~inside, -torch.inf).softmax(1) * near
