"""The CTC head alone (Graves et al. 2006): its greedy path, written as the frames come in."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from cortado.model.decoder.decoder import Decoded, Decoder


class CtcState(NamedTuple):
    """What the path remembers of each stream."""

    symbol: Tensor  # (S,) of the frame before, blank or not


class CtcDecoder(Decoder):
    """What the head hears, without repeats and blanks. It has no parameters of its own."""

    online = True

    def __init__(self, head: nn.Linear) -> None:
        """Follow a CTC head, whose last output is the blank; it belongs to the recogniser."""
        super().__init__()
        self._head = [head]  # in a list, so that its parameters are not counted here too
        self.blank = head.out_features - 1

    def forward(self, values: Tensor, mask: Tensor, targets: Tensor, noise: float = 0.0) -> Decoded:
        """Refuse: the head is trained by its own loss.

        Raises:
            ValueError: always.
        """
        raise ValueError("expected a decoder with an LSTM, got the CTC head alone")

    def initial_state(self, streams: int) -> CtcState:
        """Return the state of streams that have heard nothing."""
        return CtcState(torch.full((streams,), self.blank, device=self._head[0].weight.device))

    def step(
        self, value: Tensor, state: CtcState, cap: int, generator: torch.Generator | None = None
    ) -> tuple[Tensor, CtcState]:
        """Return the symbols (S, cap) written at the next (S, H) encoder frame, -1 for none."""
        best = self._head[0](value).argmax(1)
        new = (best != self.blank) & (best != state.symbol)
        written = torch.full((len(best), cap), -1, device=best.device)
        written[:, 0] = torch.where(new, best, -1)
        return written, CtcState(best)
