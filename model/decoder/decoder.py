"""The decoders' interface and shared parts: the teacher-forced pass and the scan over a stream.

A decoder turns encoder frames into symbols. Two use an attention and differ in whether they query
it before or after the LSTM's step (bahdanau.py, luong.py); one takes the CTC head's greedy path
(ctc.py).
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
    """The results of a teacher-forced pass over whole utterances, U symbols each.

    Row U + 1 is the one after the last symbol: a monotonic attention scans on for one more symbol
    there, another one gives the end of sequence.
    """

    logits: Tensor  # (B, U, V) of each symbol; (B, U + 1, V + 1) with an end of sequence, index V
    alpha: Tensor  # (B, U + 1, T) expected alignment; the weights where it is not monotonic
    energies: Tensor | None  # (B, U + 1, T) monotonic energies
    weights: Tensor  # (B, U + 1, T) of the encoder frames in the contexts


class Memory(NamedTuple):
    """A decoder's state between two symbols."""

    lstm: LSTMState
    symbol: Tensor  # (S,) the last symbol written


class Output(NamedTuple):
    """What a decoder computed with a symbol's logits and needs to read the symbol."""

    lstm: LSTMState
    lstm_input: Tensor  # (S, H) read beside the symbol's embedding; (S, 0) for nothing


class DecoderState(NamedTuple):
    """The decoder's state of each stream."""

    lstm: LSTMState
    symbol: Tensor  # (S,) the last symbol written
    keys: Tensor  # (S, w, d) chunk keys of the last w encoder frames
    values: Tensor  # (S, w, H) the last w encoder frames
    valid: Tensor  # (S, w) false on frames that a chunk may not reach


Choose = Callable[[Tensor, Tensor], Tensor]  # logits (S, V), chunk weights (S, w) to symbols (S,)


class Decoder(Layer):
    """Encoder frames (B, T, H) to the symbols (B, T, cap) written at each, -1 for none."""

    online: bool  # whether it can stream; if not, it needs whole utterances and writes an end
    start: int  # the symbol before the first; the CTC head alone lacks this and what follows
    attention: Any  # one of model/attention/
    embedding: nn.Embedding
    lstm: nn.LSTMCell
    output: nn.Linear
    cap = MAX_SYMBOLS_PER_STEP

    @property
    def ends(self) -> bool:
        """Whether it writes an end-of-sequence symbol."""
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
        """Return (B, U, V) logits of symbols (B, U) given those before them, with zero contexts.

        The decoder learns to spell from text alone with them (text_loss in training).
        """
        raise NotImplementedError


class AttentionDecoder(Decoder):
    """An LSTM that writes symbol after symbol, each from its attention context."""

    def __init__(
        self, config: DecoderConfig, encoder_width: int, symbols: int, lstm_input_width: int
    ) -> None:
        """Make the parts that both orders have; the LSTM reads so many values and a symbol."""
        super().__init__()
        self.start = self.end = symbols  # one index: neither is ever written as the other
        self.encoder_width = encoder_width
        self.embedding = nn.Embedding(symbols + 1, config.embedding)
        self.attention = attention(config.attention, config.width, encoder_width)
        self.online = self.attention.online
        self.lstm = nn.LSTMCell(config.embedding + lstm_input_width, config.width)

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

        logits = self.logits(targets, context)
        return self.decoded(logits, steps)

    def logits(self, targets: Tensor, context: Callable[[Tensor], Tensor]) -> Tensor:
        """Return (B, U, V) logits of known symbols, or (B, U + 1, V + 1) with an end of sequence.

        Args:
            targets: (B, U) symbols.
            context: called with the (B, H) query of each symbol in order, and of the one after the
                last; returns its (B, H') context.
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
        """Return the results of a pass, given its logits and each symbol's attention."""
        weights = torch.stack([one.weights for one in steps], 1)
        if not self.online:
            return Decoded(logits, weights, None, weights)
        energies = torch.stack([one.energies for one in steps if one.energies is not None], 1)
        return Decoded(logits, torch.stack([one.memory for one in steps], 1), energies, weights)

    def initial_state(self, batch: int) -> DecoderState:
        """Return the state of streams without audio yet.

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
        self,
        x: Tensor,
        state: DecoderState,
        generator: torch.Generator | None = None,
        choose: Choose | None = None,
    ) -> tuple[Tensor, DecoderState]:
        """Return the symbols (S, T, cap) written at the next (S, T, H) encoder frames.

        With a generator, stops are drawn from Bernoulli(p) instead of taken where p >= 0.5.
        `choose` takes the place of the likeliest symbol.
        """
        written = []
        for value in x.unbind(1):
            symbols, state = self._scan(value, state, generator, choose)
            written.append(symbols)
        return torch.stack(written, 1), state

    def _scan(
        self,
        value: Tensor,
        state: DecoderState,
        generator: torch.Generator | None,
        choose: Choose | None,
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
            if (
                not scanning.is_cuda and not scanning.any()
            ):  # on a GPU the question would wait for the device
                break
            logits, output = self.write(attention.context(query, keys, values, valid), memory)
            if choose is None:
                best = logits.argmax(1)
            else:  # a context is linear in the frames: that of unit vectors is the weights
                units = torch.eye(values.shape[1], device=values.device).expand(len(values), -1, -1)
                best = choose(logits, attention.context(query, keys, units, valid))
            written.append(torch.where(scanning, best, -1))
            memory = update_rows(memory, self.read(best, output), scanning)
            valid = attention.stopped(valid, scanning)
        written += [torch.full_like(memory.symbol, -1)] * (self.cap - len(written))
        return torch.stack(written, 1), DecoderState(*memory, keys, values, valid)


def update_rows(memory: Memory, new: Memory, rows: Tensor) -> Memory:
    """Return the memory, with the rows (S,) that are true taken from the new one."""
    wide = rows.unsqueeze(1)
    hidden = torch.where(wide, new.lstm.hidden, memory.lstm.hidden)
    cell = torch.where(wide, new.lstm.cell, memory.lstm.cell)
    return Memory(LSTMState(hidden, cell), torch.where(rows, new.symbol, memory.symbol))


def push(window: Tensor, newest: Tensor) -> Tensor:
    """Return the (S, w, ...) window with its oldest entry dropped and the (S, ...) newest added."""
    return torch.cat([window[:, 1:], newest.unsqueeze(1)], 1)
