"""The decoder in Bahdanau's order: attention first, then the LSTM.

The attention is queried with s_{i-1}; s_i = LSTM(s_{i-1}, [embed(y_{i-1}); c_i]);
y_i ~ softmax(W [s_i; c_i] + b) or, directly, softmax(W s_i + b).
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from cortado.model.attention.shared_matmul import SharedMatrix
from cortado.model.config import DecoderConfig
from cortado.model.decoder.decoder import AttentionDecoder, Memory, Output
from cortado.model.encoder.lstm import LSTMState, lstm, lstm_cell


class BahdanauDecoder(AttentionDecoder):
    """Encoder frames (B, T, H) to symbols, querying with the LSTM's state before each symbol."""

    def __init__(self, config: DecoderConfig, encoder_width: int, symbols: int) -> None:
        super().__init__(config, encoder_width, symbols, encoder_width)
        self.direct = config.direct
        read = config.width + (0 if config.direct else encoder_width)
        self.output = nn.Linear(read, symbols + self.ends)

    def logits(self, targets: Tensor, context: Callable[[Tensor], Tensor]) -> Tensor:
        """Return (B, U, V) logits of known symbols; (B, U + 1, V + 1) with an end."""
        previous = nn.functional.pad(targets, (1, 0), value=self.start)  # y_0, y_1, ...
        embedded, recurrent = self._gates(previous)
        state, outputs = self.zeros(embedded, len(targets)), []
        for gate in embedded.unbind():
            found = context(state.hidden)
            gates = gate + recurrent.multiply(torch.cat([found, state.hidden], 1))
            i, f, g, o = gates.chunk(4, 1)
            state = lstm_cell(i, f, g, o, state.cell)
            outputs.append(self._read(state.hidden, found))
        written = torch.stack(outputs, 1)
        logits: Tensor = self.output(written if self.ends else written[:, :-1])
        return logits

    def without_audio(self, targets: Tensor) -> Tensor:
        """Return (B, U, V) logits of symbols (B, U) from those before them, the contexts zero."""
        previous = self.embedding(nn.functional.pad(targets[:, :-1], (1, 0), value=self.start))
        cell, width = self.lstm, self.embedding.embedding_dim
        weights = [cell.weight_ih[:, :width], cell.weight_hh, cell.bias_ih, cell.bias_hh]
        hidden, *_ = lstm(previous, *self.zeros(previous, len(previous)), weights)
        written = self.output.weight[:, : cell.hidden_size]
        return nn.functional.linear(hidden, written, self.output.bias)

    def _read(self, hidden: Tensor, context: Tensor) -> Tensor:
        """Return the output layer's input."""
        return hidden if self.direct else torch.cat([hidden, context], 1)

    def _gates(self, previous: Tensor) -> tuple[Tensor, SharedMatrix]:
        """Return (U, B, 4 H) the previous symbols' part of the gates, and the other weights."""
        cell, width = self.lstm, self.embedding.embedding_dim
        embedded = self.embedding(previous.t()) @ cell.weight_ih[:, :width].t()
        others = torch.cat([cell.weight_ih[:, width:], cell.weight_hh], 1)  # context, hidden
        return embedded + (cell.bias_ih + cell.bias_hh), SharedMatrix(others.t())

    def beginning(self, streams: int) -> Memory:
        """Return the memory before the first symbol."""
        weight = self.output.weight
        symbol = torch.full((streams,), self.start, device=weight.device)
        return Memory(self.zeros(weight, streams), symbol)

    def write(self, context: Tensor, memory: Memory) -> tuple[Tensor, Output]:
        """Return the next symbol's logits (S, V) given its (S, H) context."""
        inputs = torch.cat([self.embedding(memory.symbol), context], 1)
        hidden, cell = self.lstm(inputs, memory.lstm)
        logits = self.output(self._read(hidden, context))
        return logits, Output(LSTMState(hidden, cell), context[:, :0])

    def read(self, symbol: Tensor, output: Output) -> Memory:
        """Return the memory after the symbols (S,) that were chosen, which the LSTM reads next."""
        return Memory(output.lstm, symbol)
