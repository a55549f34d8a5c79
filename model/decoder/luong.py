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
from cortado.model.decoder.readout import readout
from cortado.model.encoder.lstm import LSTMState


class LuongDecoder(AttentionDecoder):
    """Encoder frames (B, T, H) to symbols, querying with the LSTM's state at each symbol."""

    def __init__(
        self,
        config: DecoderConfig,
        encoder_width: int,
        symbols: int,
        text: bool = False,
        copies: bool = False,
    ) -> None:
        """Make the parts; `copies` says whether the last output is the gate of copying.py."""
        fed = config.width if config.feeding else 0
        super().__init__(config, encoder_width, symbols, fed, text)
        self.feeding = config.feeding
        self.combine = nn.Linear(encoder_width + config.width, config.width, bias=False)
        self.readout, width = readout(config, config.width)
        self.output = nn.Linear(width, symbols + self.ends + copies)

    def states(
        self,
        previous: Tensor,
        context: Callable[[Tensor], Tensor],
        first: LSTMState | None = None,
    ) -> Tensor:
        """Return the attentional states (B, U, H) after each of the known symbols (B, U)."""
        known, others = self.known(previous)
        combine = SharedMatrix(self.combine.weight.t())
        state, outputs = first or self.zeros(known, len(previous)), []
        attentional = torch.zeros_like(self.top(state.hidden))
        for given in known.unbind():
            state = self.stepped_known(given, others, self._lstm_input(attentional), state)
            query = self.top(state.hidden)
            attentional = combine.multiply(torch.cat([context(query), query], 1)).tanh()
            outputs.append(attentional)
        return torch.stack(outputs, 1)

    def _lstm_input(self, attentional: Tensor) -> Tensor:
        """Return what the LSTM reads beside the next symbol's embedding."""
        return attentional if self.feeding else attentional[:, :0]

    def beginning(self, streams: int, first: LSTMState | None = None) -> Memory:
        """Return the memory before the first symbol, in which the LSTM has read the start.

        Its first state (S, L H) is zero where none is given.
        """
        rows = 1 if first is None else streams
        state = first or self.zeros(self.output.weight, rows)
        symbol = torch.full((rows,), self.start, device=state.hidden.device)
        nothing = self._lstm_input(torch.zeros_like(self.top(state.hidden)))
        (hidden, cell), _ = self.read(symbol, Output(state, nothing))
        if first is None:
            hidden, cell = hidden.repeat(streams, 1), cell.repeat(streams, 1)
        return Memory(LSTMState(hidden, cell), symbol.repeat(streams // rows))

    def write(self, context: Tensor, memory: Memory) -> tuple[Tensor, Output]:
        """Return the next symbol's logits (S, V) given its (S, H) context."""
        query = self.query(memory)
        attentional = self.combine(torch.cat([context, query], 1)).tanh()
        logits = self.output(self.readout(attentional))
        return logits, Output(memory.lstm, self._lstm_input(attentional))

    def read(self, symbol: Tensor, output: Output) -> Memory:
        """Return the memory after the LSTM has read the symbols (S,) that were chosen."""
        return Memory(self.stepped(symbol, output.lstm_input, output.lstm), symbol)
