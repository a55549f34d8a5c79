"""The greedy scan as a search: each symbol is committed at its own frame."""

from typing import Any

import torch
from torch import Tensor

from cortado.model.decoder.ctc import CtcState
from cortado.model.decoder.decoder import Decoder
from cortado.model.emission import CERTAIN, Emissions
from cortado.model.layer import Layer


class GreedySearch(Layer):
    """Encoder frames (S, T, H) to emissions (S, T, cap, 3).

    An emission is a symbol, -1 for none, its lateness in frames, which is 0, and its confidence in
    thousandths, which is full.
    """

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self._decoder = decoder

    def initial_state(self, batch: int) -> Any:
        """Return the state of streams without audio yet."""
        return self._decoder.initial_state(batch)

    def step(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Return the emissions (S, T, cap, 3) of the next (S, T, H) encoder frames."""
        symbols, state = self._decoder.step(x, state)
        late, certain = torch.zeros_like(symbols), torch.full_like(symbols, CERTAIN)
        return torch.stack([symbols, late, certain], 3), state

    def restarted(self, state: Any) -> tuple[Emissions, Any]:
        """Return no symbols, and the state with the decoder's part as at the start."""
        fresh = self._decoder.initial_state(len(state.symbol))
        if not isinstance(fresh, CtcState):  # keep the windows of encoder frames
            fresh = state._replace(lstm=fresh.lstm, symbol=fresh.symbol)
        return Emissions.nothing(len(state.symbol), 0), fresh
