"""The decoder in Bahdanau's order: attention first, then the LSTM.

The attention is queried with s_{i-1}; s_i = LSTM(s_{i-1}, [embed(y_{i-1}); c_i]);
y_i ~ softmax(W [s_i; c_i] + b) or, directly, softmax(W s_i + b).
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from cortado.model.config import DecoderConfig
from cortado.model.decoder.decoder import AttentionDecoder, Memory, Output
from cortado.model.decoder.readout import readout
from cortado.model.encoder.lstm import LSTMState, lstm


class BahdanauDecoder(AttentionDecoder):
    """Encoder frames (B, T, H) to symbols, querying with the LSTM's state before each symbol."""

    def __init__(
        self,
        config: DecoderConfig,
        encoder_width: int,
        symbols: int,
        text: bool = False,
        copies: bool = False,
    ) -> None:
        """Make the parts; `copies` says whether the last output is the gate of copying.py."""
        super().__init__(config, encoder_width, symbols, encoder_width, text)
        self.direct = config.direct
        read = config.width + (0 if config.direct else encoder_width)
        self.readout, width = readout(config, read)
        self.output = nn.Linear(width, symbols + self.ends + copies)

    def states(
        self,
        previous: Tensor,
        context: Callable[[Tensor], Tensor],
        first: LSTMState | None = None,
    ) -> Tensor:
        """Return (B, U, R), what the output reads after each of the known symbols (B, U)."""
        known, others = self.known(previous)
        state, outputs = first or self.zeros(known, len(previous)), []
        for given in known.unbind():
            found = context(self.top(state.hidden))
            state = self.stepped_known(given, others, found, state)
            outputs.append(self._read(self.top(state.hidden), found))
        return torch.stack(outputs, 1)

    def without_audio(self, targets: Tensor) -> Tensor:
        """Return (B, U, V) logits of symbols (B, U): of one layer by a whole LSTM at once."""
        if self.upper or not isinstance(self.readout, nn.Identity):
            return super().without_audio(targets)
        previous = self.embedding(nn.functional.pad(targets[:, :-1], (1, 0), value=self.start))
        cell, width = self.lstm, self.embedding.embedding_dim
        weights = [cell.weight_ih[:, :width], cell.weight_hh, cell.bias_ih, cell.bias_hh]
        hidden, *_ = lstm(previous, *self.zeros(previous, len(previous)), weights)
        written = self.output.weight[:, : cell.hidden_size]
        return nn.functional.linear(hidden, written, self.output.bias)

    def _read(self, hidden: Tensor, context: Tensor) -> Tensor:
        """Return the output layer's input."""
        return hidden if self.direct else torch.cat([hidden, context], 1)

    def beginning(self, streams: int, first: LSTMState | None = None) -> Memory:
        """Return the memory before the first symbol, given the LSTM's first state (S, L H)."""
        weight = self.output.weight
        symbol = torch.full((streams,), self.start, device=weight.device)
        return Memory(first or self.zeros(weight, streams), symbol)

    def write(self, context: Tensor, memory: Memory) -> tuple[Tensor, Output]:
        """Return the next symbol's logits (S, V) given its (S, H) context."""
        state = self.stepped(memory.symbol, context, memory.lstm)
        logits = self.output(self.readout(self._read(self.top(state.hidden), context)))
        return logits, Output(state, context[:, :0])

    def read(self, symbol: Tensor, output: Output) -> Memory:
        """Return the memory after the symbols (S,) that were chosen, which the LSTM reads next."""
        return Memory(output.lstm, symbol)
