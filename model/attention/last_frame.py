"""No attention: the vanilla encoder-decoder, whose context is the last encoder frame."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from cortado.model.attention.interface import Attended


class LastKeys(NamedTuple):
    """The last frames of whole utterances."""

    value: Tensor  # (B, H)
    weights: Tensor  # (B, T) 1 on the last frame


class LastFrame(nn.Module):
    """The last frame for every symbol (Sutskever et al. 2014; Cho et al. 2014)."""

    online = False

    def keys(self, values: Tensor, mask: Tensor) -> LastKeys:
        """Return the last frames of whole (B, T, H) utterances."""
        weights = nn.functional.pad(mask.to(values), (0, 1)).diff(dim=1).neg()  # (B, T)
        last = (mask.sum(1) - 1).clamp(min=0)
        return LastKeys(values[torch.arange(len(values), device=values.device), last], weights)

    def first(self, mask: Tensor) -> Tensor:
        """Return (B, 0): nothing changes from symbol to symbol."""
        return mask.new_zeros(len(mask), 0)

    def attend(self, query: Tensor, keys: LastKeys, memory: Tensor, noise: float = 0.0) -> Attended:
        """Return the last frame."""
        return Attended(keys.value, keys.weights, memory, None)
