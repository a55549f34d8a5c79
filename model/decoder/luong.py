"""The decoder in Luong's order: the LSTM first, then attention (Luong et al. 2015).

s_i = LSTM(s_{i-1}, [embed(y_{i-1}); a_{i-1}]); the attention is queried with s_i;
the attentional state a_i = tanh(W_c [c_i; s_i]); y_i ~ softmax(W a_i + b). That a_{i-1} goes into
the LSTM is input feeding, which may be left out.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from cortado.model.attention.shared_matmul import SharedMatrix
from cortado.model.config import DecoderConfig
from cortado.model.decoder.decoder import AttentionDecoder, Memory, Output
from cortado.model.encoder.lstm import LSTMState, lstm_cell


class LuongDecoder(AttentionDecoder):
    """Encoder frames (B, T, H) to symbols, querying with the LSTM's state at each symbol."""

    def __init__(self, config: DecoderConfig, encoder_width: int, symbols: int) -> None:
        lstm_input_width = config.width if config.feeding else 0
        super().__init__(config, encoder_width, symbols, lstm_input_width)
        self.feeding = config.feeding
        self.combine = nn.Linear(encoder_width + config.width, config.width, bias=False)
        self.output = nn.Linear(config.width, symbols + self.ends)

    def logits(self, targets: Tensor, context: Callable[[Tensor], Tensor]) -> Tensor:
        """Return (B, U, V) logits of known symbols; (B, U + 1, V + 1) with an end."""
        previous = nn.functional.pad(targets, (1, 0), value=self.start)  # y_0, y_1, ...
        written = self._attentional(previous, context)
        logits: Tensor = self.output(written if self.ends else written[:, :-1])
        return logits

    def without_audio(self, targets: Tensor) -> Tensor:
        """Return (B, U, V) logits of symbols (B, U) from those before them, the contexts zero."""
        previous = nn.functional.pad(targets[:, :-1], (1, 0), value=self.start)
        silence = self.embedding.weight.new_zeros(len(targets), self.encoder_width)
        logits: Tensor = self.output(self._attentional(previous, lambda query: silence))
        return logits

    def _attentional(self, previous: Tensor, context: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the attentional states (B, U, H) after reading each of the symbols (B, U)."""
        lstm, width = self.lstm, self.embedding.embedding_dim
        embedded = self.embedding(previous.t()) @ lstm.weight_ih[:, :width].t()
        embedded = embedded + (lstm.bias_ih + lstm.bias_hh)
        recurrent = SharedMatrix(torch.cat([lstm.weight_ih[:, width:], lstm.weight_hh], 1).t())
        combine = SharedMatrix(self.combine.weight.t())
        state, outputs = self.zeros(embedded, len(previous)), []
        attentional = state.hidden
        for gate in embedded.unbind():
            lstm_input = self._lstm_input(attentional)
            gates = gate + recurrent.multiply(torch.cat([lstm_input, state.hidden], 1))
            i, f, g, o = gates.chunk(4, 1)
            state = lstm_cell(i, f, g, o, state.cell)
            both = torch.cat([context(state.hidden), state.hidden], 1)
            attentional = combine.multiply(both).tanh()
            outputs.append(attentional)
        return torch.stack(outputs, 1)

    def _lstm_input(self, attentional: Tensor) -> Tensor:
        """Return what the LSTM reads beside the next symbol's embedding."""
        return attentional if self.feeding else attentional[:, :0]

    def beginning(self, streams: int) -> Memory:
        """Return the memory before the first symbol, in which the LSTM has read the start."""
        state = self.zeros(self.output.weight, 1)
        symbol = torch.full((1,), self.start, device=state.hidden.device)
        (hidden, cell), _ = self.read(symbol, Output(state, self._lstm_input(state.hidden)))
        state = LSTMState(hidden.repeat(streams, 1), cell.repeat(streams, 1))
        return Memory(state, symbol.repeat(streams))

    def write(self, context: Tensor, memory: Memory) -> tuple[Tensor, Output]:
        """Return the next symbol's logits (S, V) given its (S, H) context."""
        attentional = self.combine(torch.cat([context, memory.lstm.hidden], 1)).tanh()
        return self.output(attentional), Output(memory.lstm, self._lstm_input(attentional))

    def read(self, symbol: Tensor, output: Output) -> Memory:
        """Return the memory after the LSTM has read the symbols (S,) that were chosen."""
        inputs = torch.cat([self.embedding(symbol), output.lstm_input], 1)
        return Memory(LSTMState(*self.lstm(inputs, output.lstm)), symbol)
