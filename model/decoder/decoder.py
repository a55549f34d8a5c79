"""What all decoders share: the teacher-forced pass's shape, and the scan over a stream.

A decoder turns encoder frames to symbols. Two query an attention and differ in the order in which
they do (bahdanau.py, luong.py); one writes what the CTC head hears (ctc.py).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from cortado.model.attention.build import attention
from cortado.model.attention.interface import Attended, Attention, MonotonicAttention, stops
from cortado.model.config import MAX_SYMBOLS_PER_STEP, DecoderConfig
from cortado.model.encoder.lstm import LSTMState
from cortado.model.layer import Layer


class Decoded(NamedTuple):
    """A teacher-forced pass over whole utterances; its last row is that after the last symbol.

    There a monotonic attention scans for one more symbol, and others give the end of the sequence.
    """

    logits: Tensor  # (B, U, V) of each symbol; (B, U + 1, V + 1) with an end of sequence, index V
    alpha: Tensor  # (B, U + 1, T) expected alignment; the weights where it is not monotonic
    energies: Tensor | None  # (B, U + 1, T) monotonic energies
    weights: Tensor  # (B, U + 1, T) of the encoder frames in the contexts


class Memory(NamedTuple):
    """What a decoder remembers from symbol to symbol."""

    lstm: LSTMState
    symbol: Tensor  # (S,) the last symbol written


class Output(NamedTuple):
    """What a decoder has at hand between a symbol's logits and the symbol."""

    lstm: LSTMState
    fed: Tensor  # (S, H) what goes into the LSTM with the symbol; (S, 0) for nothing


class DecoderState(NamedTuple):
    """What the decoder remembers of each stream."""

    lstm: LSTMState
    symbol: Tensor  # (S,) the last symbol written
    keys: Tensor  # (S, w, d) chunk keys of the last w encoder frames
    values: Tensor  # (S, w, H) the last w encoder frames
    valid: Tensor  # (S, w) false on frames that a chunk may not reach


class Decoder(Layer):
    """Encoder frames (B, T, H) to the symbols (B, T, cap) written at each, -1 for none."""

    online: bool  # whether it streams; if not, it needs whole utterances and writes an end
    start: int  # the symbol before the first; of CTC alone there is none, and none of what follows
    attention: Any  # one of model/attention/
    embedding: nn.Embedding
    lstm: nn.LSTMCell
    output: nn.Linear
    cap = MAX_SYMBOLS_PER_STEP

    @property
    def ends(self) -> bool:
        """Whether it writes an end of sequence: the utterance's end does not say it."""
        return not self.online

    def teacher_forced(
        self, values: Tensor, mask: Tensor, targets: Tensor, noise: float = 0.0
    ) -> Decoded:
        """Return the pass over whole utterances whose symbols are known.

        Args:
            values: (B, T, H) encoder frames.
            mask: (B, T) true on frames, false on padding.
            targets: (B, U) symbols, any index on padding.
            noise: standard deviation of the monotonic attention's pre-sigmoid noise.
        """
        raise NotImplementedError

    def without_audio(self, targets: Tensor) -> Tensor:
        """Return (B, U, V) logits of symbols (B, U) from those before them, the contexts zero.

        With them the decoder learns to spell from text alone (text_loss in training).
        """
        raise NotImplementedError


class AttentionDecoder(Decoder):
    """An LSTM that writes one symbol after another from what an attention gives it."""

    def __init__(
        self, config: DecoderConfig, encoder_width: int, symbols: int, fed_width: int
    ) -> None:
        """Make the parts that both orders have; the LSTM reads a symbol and `fed_width` values."""
        super().__init__()
        self.start = self.end = symbols  # one index: neither is ever written as the other
        self.encoder_width = encoder_width
        self.embedding = nn.Embedding(symbols + 1, config.embedding)
        self.attention = attention(config.attention, config.width, encoder_width)
        self.online = self.attention.online
        self.lstm = nn.LSTMCell(config.embedding + fed_width, config.width)

    def teacher_forced(
        self, values: Tensor, mask: Tensor, targets: Tensor, noise: float = 0.0
    ) -> Decoded:
        """Return the pass over whole utterances whose symbols are known."""
        attention: Attention = self.attention
        keys, steps = attention.keys(values, mask), list[Attended]()

        def context(query: Tensor) -> Tensor:
            memory = steps[-1].memory if steps else attention.first(mask)
            steps.append(attention.attend(query, keys, memory, noise))
            return steps[-1].context

        logits = self.spelt(targets, context)
        return self.decoded(logits, steps)

    def spelt(self, targets: Tensor, context: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the logits of symbols and, with an end of sequence, of what follows them.

        Args:
            targets: (B, U) symbols, each of which is read once the next one is wanted.
            context: called with the (B, H) query of each symbol, and of one more, in order; returns
                its (B, H') context.
        """
        raise NotImplementedError

    def query(self, memory: Memory) -> Tensor:
        """Return the (S, H) query for the next symbol's context."""
        return memory.lstm.hidden

    def write(self, context: Tensor, memory: Memory) -> tuple[Tensor, Output]:
        """Return the next symbol's logits (S, V) given its (S, H) context."""
        raise NotImplementedError

    def read(self, symbol: Tensor, output: Output) -> Memory:
        """Return the memory after the symbols (S,) that were chosen."""
        raise NotImplementedError

    def beginning(self, streams: int) -> Memory:
        """Return the memory before the first symbol."""
        raise NotImplementedError

    def zeros(self, like: Tensor, streams: int) -> LSTMState:
        """Return the LSTM's first state."""
        zeros = like.new_zeros(streams, self.lstm.hidden_size)
        return LSTMState(zeros, zeros)

    def decoded(self, logits: Tensor, steps: list[Attended]) -> Decoded:
        """Return the pass whose symbols, and what follows them, have attended so."""
        weights = torch.stack([one.weights for one in steps], 1)
        if not self.online:
            return Decoded(logits, weights, None, weights)
        energies = torch.stack([one.energies for one in steps if one.energies is not None], 1)
        return Decoded(logits, torch.stack([one.memory for one in steps], 1), energies, weights)

    def initial_state(self, batch: int) -> DecoderState:
        """Return the state of streams that have written nothing.

        Raises:
            ValueError: the attention needs whole utterances.
        """
        if not self.online:
            name = type(self.attention).__name__
            raise ValueError(f"expected a monotonic attention for a stream, got {name}")
        scan: MonotonicAttention = self.attention
        lstm, symbol = self.beginning(batch)
        values = lstm.hidden.new_zeros(batch, scan.window, self.encoder_width)
        key = scan.chunk_key(values[:0, 0])
        keys = values.new_zeros(batch, scan.window, key.shape[1])
        return DecoderState(lstm, symbol, keys, values, torch.zeros_like(values[..., 0]).bool())

    def step(
        self, x: Tensor, state: DecoderState, generator: torch.Generator | None = None
    ) -> tuple[Tensor, DecoderState]:
        """Return the symbols (S, T, cap) written at the next (S, T, H) encoder frames.

        With a generator, stops are drawn from Bernoulli(p) instead of taken where p >= 0.5.
        """
        written = []
        for value in x.unbind(1):
            symbols, state = self._scan(value, state, generator)
            written.append(symbols)
        return torch.stack(written, 1), state

    def _scan(
        self, value: Tensor, state: DecoderState, generator: torch.Generator | None
    ) -> tuple[Tensor, DecoderState]:
        """Return the symbols (S, cap) written at one (S, H) encoder frame.

        The scan for a symbol begins at the frame where the last one stopped, so several may stop
        at one frame: `cap` bounds them. Source: Chiu & Raffel 2018, algorithm 1.
        """
        attention: MonotonicAttention = self.attention
        key = attention.scan_key(value)
        memory = Memory(state.lstm, state.symbol)
        keys = push(state.keys, attention.chunk_key(value))
        values = push(state.values, value)
        valid = push(state.valid, torch.ones_like(memory.symbol, dtype=torch.bool))
        scanning = torch.ones_like(memory.symbol, dtype=torch.bool)
        written = []
        for _ in range(self.cap):
            query = self.query(memory)
            scanning = scanning & stops(attention.energy(query, key), generator)
            if not scanning.is_cuda and not scanning.any():  # a GPU answers later than it goes on
                break
            logits, output = self.write(attention.context(query, keys, values, valid), memory)
            best = logits.argmax(1)
            written.append(torch.where(scanning, best, -1))
            memory = moved(memory, self.read(best, output), scanning)
            valid = attention.stopped(valid, scanning)
        written += [torch.full_like(memory.symbol, -1)] * (self.cap - len(written))
        return torch.stack(written, 1), DecoderState(*memory, keys, values, valid)


def moved(memory: Memory, new: Memory, rows: Tensor) -> Memory:
    """Return the memory with some rows (S,) those of the new one."""
    wide = rows.unsqueeze(1)
    hidden = torch.where(wide, new.lstm.hidden, memory.lstm.hidden)
    cell = torch.where(wide, new.lstm.cell, memory.lstm.cell)
    return Memory(LSTMState(hidden, cell), torch.where(rows, new.symbol, memory.symbol))


def push(window: Tensor, newest: Tensor) -> Tensor:
    """Return the (S, w, ...) window with its oldest entry dropped and the (S, ...) newest added."""
    return torch.cat([window[:, 1:], newest.unsqueeze(1)], 1)
