"""Dropout whose mask costs next to nothing: eight numbers of eight bits a draw."""

import torch
from torch import Tensor, nn

from cortado.model.layer import Stateless

LEVELS = 256  # shares are multiples of one in so many


class Dropout(Stateless, nn.Dropout):
    """Leave out a share of the numbers in training, and make up for it in what is left."""

    def forward(self, x: Tensor) -> Tensor:
        """Return x with some of its numbers zero."""
        left = LEVELS - round(LEVELS * self.p)
        if not self.training or left == LEVELS:
            return x
        draws = torch.empty(-(-x.numel() // 8), dtype=torch.int64, device=x.device)
        levels = draws.random_(-(2**63), None).view(torch.uint8)[: x.numel()].view(x.shape)
        return x * (levels < left).to(x.dtype).mul_(LEVELS / left)
