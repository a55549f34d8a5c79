"""The CTC head as a decoder (Graves et al. 2006): its greedy path, frame by frame."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from cortado.model.decoder.decoder import Decoder


class CtcState(NamedTuple):
    """The greedy path's state of each stream."""

    symbol: Tensor  # (S,) the best symbol of the frame before, or the blank


class CtcDecoder(Decoder):
    """The head's best symbols without repeats and blanks. It has no parameters of its own."""

    online = True

    def __init__(self, head: nn.Linear) -> None:
        """Use a recogniser's CTC head, whose last output is the blank."""
        super().__init__()
        self._head = [head]  # in a list, so that its parameters are not counted here too
        self.blank = head.out_features - 1

    def initial_state(self, batch: int) -> CtcState:
        """Return the state of streams without audio yet."""
        return CtcState(torch.full((batch,), self.blank, device=self._head[0].weight.device))

    def step(self, x: Tensor, state: CtcState) -> tuple[Tensor, CtcState]:
        """Return the symbols (S, T, cap) written at the next (S, T, H) encoder frames."""
        best = self._head[0](x).argmax(2)  # (S, T)
        path = torch.cat([state.symbol.unsqueeze(1), best], 1)
        new = (best != self.blank) & (best != path[:, :-1])
        nothing = torch.full((*best.shape, self.cap - 1), -1, device=best.device)
        written = torch.cat([torch.where(new, best, -1).unsqueeze(2), nothing], 2)
        return written, CtcState(path[:, -1])
