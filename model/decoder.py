"""The MoChA decoder: an LSTM that writes one symbol at each stop of the attention.

Bahdanau's order: the attention is queried with s_{i-1}; s_i = LSTM(s_{i-1}, [embed(y_{i-1}); c_i]);
y_i ~ softmax(W [s_i; c_i] + b).
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn

from model.alignment import first_alignment
from model.attention import AttentionConfig, MoChA
from model.recurrent import LSTMState
from model.shared_matmul import SharedMatrix


@dataclass(frozen=True)
class DecoderConfig:
    """Sizes of the decoder; the defaults are the paper's."""

    width: int = 256  # of the LSTM
    embedding: int = 64
    attention: AttentionConfig = field(default_factory=AttentionConfig)


class Decoded(NamedTuple):
    """A teacher-forced pass over whole utterances."""

    logits: Tensor  # (B, U, V) of each symbol
    alpha: Tensor  # (B, U + 1, T) expected alignment; the last row is the scan for one more symbol
    energies: Tensor  # (B, U + 1, T) monotonic energies


class DecoderState(NamedTuple):
    """What the decoder remembers of each stream."""

    lstm: LSTMState
    symbol: Tensor  # (S,) the last symbol written
    keys: Tensor  # (S, w, d) chunk keys of the last w encoder frames
    values: Tensor  # (S, w, H) the last w encoder frames
    valid: Tensor  # (S, w) false before the first encoder frame


class Decoder(nn.Module):
    """Encoder frames (B, T, H) to symbols, as the monotonic attention advances."""

    def __init__(self, config: DecoderConfig, encoder_width: int, symbols: int) -> None:
        super().__init__()
        self.start = symbols
        self.encoder_width = encoder_width
        self.embedding = nn.Embedding(symbols + 1, config.embedding)
        self.attention = MoChA(config.attention, config.width, encoder_width)
        self.lstm = nn.LSTMCell(config.embedding + encoder_width, config.width)
        self.output = nn.Linear(config.width + encoder_width, symbols)

    def forward(self, values: Tensor, mask: Tensor, targets: Tensor, noise: float = 0.0) -> Decoded:
        """Return the teacher-forced pass over whole utterances.

        Args:
            values: (B, T, H) encoder frames.
            mask: (B, T) true on frames, false on padding.
            targets: (B, U) symbols, any index on padding.
            noise: standard deviation of the monotonic attention's pre-sigmoid noise.
        """
        batch, frames, _ = values.shape
        keys = self.attention.keys(values)
        heard = nn.functional.pad(targets, (1, 0), value=self.start)  # y_0, y_1, ...
        embedded, recurrent = self._gates(heard)
        alphas, energies, outputs = [], [], []
        state = self._zeros(values, batch)
        alpha = first_alignment(batch, frames).to(values)
        for gate in embedded.unbind():
            context, alpha, energy = self.attention.expected(state.hidden, keys, alpha, mask, noise)
            alphas.append(alpha)
            energies.append(energy)
            gates = gate + recurrent.multiply(torch.cat([context, state.hidden], 1))
            state = lstm_update(gates, state.cell)
            outputs.append(torch.cat([state.hidden, context], 1))
        logits = self.output(torch.stack(outputs, 1)[:, :-1])
        return Decoded(logits, torch.stack(alphas, 1), torch.stack(energies, 1))

    def without_audio(self, targets: Tensor) -> Tensor:
        """Return (B, U, V) logits of symbols (B, U) from those before them, the contexts zero.

        With them the decoder learns to spell from text alone (text_loss in training).
        """
        heard = self.embedding(nn.functional.pad(targets[:, :-1], (1, 0), value=self.start))
        lstm, width = self.lstm, self.embedding.embedding_dim
        weights = [lstm.weight_ih[:, :width], lstm.weight_hh, lstm.bias_ih, lstm.bias_hh]
        state = [zeros.unsqueeze(0) for zeros in self._zeros(heard, len(targets))]
        hidden, _, _ = torch.lstm(heard, state, weights, True, 1, 0.0, True, False, True)
        return nn.functional.linear(
            hidden, self.output.weight[:, : lstm.hidden_size], self.output.bias
        )

    def _gates(self, heard: Tensor) -> tuple[Tensor, SharedMatrix]:
        """Return (U, B, 4 H) what the last symbols give to the gates, and the other weights."""
        lstm, width = self.lstm, self.embedding.embedding_dim
        embedded = self.embedding(heard.t()) @ lstm.weight_ih[:, :width].t()
        others = torch.cat([lstm.weight_ih[:, width:], lstm.weight_hh], 1)  # context, hidden
        return embedded + (lstm.bias_ih + lstm.bias_hh), SharedMatrix(others.t())

    def _zeros(self, like: Tensor, streams: int) -> LSTMState:
        zeros = like.new_zeros(streams, self.lstm.hidden_size)
        return LSTMState(zeros, zeros)

    def initial_state(self, streams: int) -> DecoderState:
        """Return the state of streams that have written nothing."""
        weight, chunk = self.output.weight, self.attention.chunk
        return DecoderState(
            self._zeros(weight, streams),
            torch.full((streams,), self.start, device=weight.device),
            weight.new_zeros(streams, chunk, self.attention.chunkwise.key.out_features),
            weight.new_zeros(streams, chunk, self.encoder_width),
            torch.zeros(streams, chunk, dtype=torch.bool, device=weight.device),
        )

    def step(self, value: Tensor, state: DecoderState, cap: int) -> tuple[Tensor, DecoderState]:
        """Return the symbols (S, cap) written at the next (S, H) encoder frame, -1 for none.

        The scan for a symbol begins at the frame where the last one stopped, so several may stop
        at one frame: `cap` bounds them. Source: Chiu & Raffel 2018, algorithm 1.
        """
        attention = self.attention
        key = attention.monotonic.key(value)
        lstm, symbol = state.lstm, state.symbol
        keys = push(state.keys, attention.chunkwise.key(value))
        values = push(state.values, value)
        valid = push(state.valid, torch.ones_like(symbol, dtype=torch.bool))
        scanning = torch.ones_like(symbol, dtype=torch.bool)
        written = []
        for _ in range(cap):
            scanning = scanning & attention.stops(lstm.hidden, key)
            if not scanning.any():
                break
            context = attention.context(lstm.hidden, keys, values, valid)
            inputs = torch.cat([self.embedding(symbol), context], 1)
            hidden, cell = self.lstm(inputs, lstm)
            best = self.output(torch.cat([hidden, context], 1)).argmax(1)
            written.append(torch.where(scanning, best, -1))
            symbol = torch.where(scanning, best, symbol)
            moved = scanning.unsqueeze(1)
            lstm = LSTMState(
                torch.where(moved, hidden, lstm.hidden), torch.where(moved, cell, lstm.cell)
            )
        written += [torch.full_like(symbol, -1)] * (cap - len(written))
        return torch.stack(written, 1), DecoderState(lstm, symbol, keys, values, valid)


def push(window: Tensor, newest: Tensor) -> Tensor:
    """Return the (S, w, ...) window with its oldest entry dropped and the (S, ...) newest added."""
    return torch.cat([window[:, 1:], newest.unsqueeze(1)], 1)


def lstm_update(gates: Tensor, cell: Tensor) -> LSTMState:
    """Return the LSTM's state from its (B, 4 H) gates, in torch's order i, f, g, o."""
    i, f, g, o = gates.chunk(4, 1)
    cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return LSTMState(o.sigmoid() * cell.tanh(), cell)
