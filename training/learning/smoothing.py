"""The decoder's smoothed targets: a symbol's probability is shared with neighbours or with all."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import one_hot


def localised(targets: Tensor, lengths: Tensor, symbols: int, weights: Sequence[float]) -> Tensor:
    """Return (B, U, V) target distributions smoothed over neighbouring symbols.

    Position i keeps what its neighbours do not take; a neighbour beyond either end takes nothing.

    Args:
        targets: (B, U) symbols, any index on padding.
        lengths: (B,) of them.
        symbols: V.
        weights: of the neighbours at offsets -n..-1, 1..n; the paper for WSJ has
            (0.015, 0.035, 0.035, 0.015).

    Source: Chorowski & Jaitly 2017, as used for WSJ in Chiu & Raffel 2018, appendix A.
    """
    written = torch.arange(targets.shape[1], device=targets.device) < lengths.unsqueeze(1)  # (B, U)
    hot = one_hot(targets, symbols).float() * written.unsqueeze(2)
    reach = len(weights) // 2
    smoothed = hot.clone()
    for offset, weight in zip([*range(-reach, 0), *range(1, reach + 1)], weights, strict=True):
        neighbour = torch.zeros_like(hot)
        if offset < 0:
            neighbour[:, -offset:] = hot[:, :offset]
        else:
            neighbour[:, :-offset] = hot[:, offset:]
        there = neighbour.sum(2, keepdim=True)  # 1 where the neighbour is a symbol
        smoothed += weight * (neighbour - hot * there)
    return smoothed * written.unsqueeze(2)
