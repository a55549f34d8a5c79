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
from cortado.model.attention.shared_matmul import SharedMatrix
from cortado.model.config import MAX_SYMBOLS_PER_STEP, DecoderConfig
from cortado.model.encoder.lstm import LSTMState, lstm_cell
from cortado.model.layer import Layer, merged


class Decoded(NamedTuple):
    """The results of a teacher-forced pass over whole utterances, U symbols each.

    Row U + 1 is the one after the last symbol: a monotonic attention scans on for one more symbol
    there, another one gives the end of sequence.
    """

    logits: Tensor  # (B, U, V) of each symbol; (B, U + 1, V + 1) with an end of sequence, index V;
    # (B, U + 1, V + 2) with the gate of a pointer-generator at index V + 1
    alpha: Tensor  # (B, U + 1, T) expected alignment; the weights where it is not monotonic
    energies: Tensor | None  # (B, U + 1, T) monotonic energies
    weights: Tensor  # (B, U + 1, T) of the encoder frames in the contexts


class Memory(NamedTuple):
    """A decoder's state between two symbols."""

    lstm: LSTMState  # (S, L H) of all layers, the first one's first
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


CTC_ALONE = "expected a decoder with an LSTM, got the CTC head alone"

Choose = Callable[[Tensor, Tensor], Tensor]  # logits (S, V), chunk weights (S, w) to symbols (S,)


class Decoder(Layer):
    """Encoder frames (B, T, H) to the symbols (B, T, cap) written at each, -1 for none."""

    online: bool  # whether it can stream; if not, it needs whole utterances and writes an end
    start: int  # the symbol before the first; the CTC head alone lacks this and what follows
    attention: Any  # one of model/attention/
    embedding: nn.Embedding
    lstm: nn.LSTMCell
    readout: nn.Module  # between the states and the output
    output: nn.Linear
    cap = MAX_SYMBOLS_PER_STEP
    ends = False  # whether it writes an end-of-sequence symbol

    def teacher_forced(self, *_: Any, **__: Any) -> Decoded:
        """Raise ValueError: the CTC head alone, which its own loss trains, knows no other pass."""
        raise ValueError(CTC_ALONE)

    def without_audio(self, targets: Tensor) -> Tensor:
        """Raise ValueError, as `teacher_forced` does."""
        raise ValueError(CTC_ALONE)


class AttentionDecoder(Decoder):
    """An LSTM that writes symbol after symbol, each from its attention context."""

    def __init__(
        self,
        config: DecoderConfig,
        encoder_width: int,
        symbols: int,
        lstm_input_width: int,
        text: bool,
    ) -> None:
        """Make the parts that both orders have, all but the output.

        Args:
            config: sizes.
            encoder_width: H of the encoder frames.
            symbols: V.
            lstm_input_width: values that the LSTM reads beside a symbol.
            text: whether it writes an end of sequence, be its attention monotonic or not.
        """
        super().__init__()
        self.start = self.end = symbols  # one index: neither is ever written as the other
        self.encoder_width = encoder_width
        self.embedding = nn.Embedding(symbols + 1, config.embedding)
        self.attention = attention(config.attention, config.width, encoder_width)
        self.online = self.attention.online
        self.ends = text or not self.online
        self.lstm = nn.LSTMCell(config.embedding + lstm_input_width, config.width)
        self.upper = nn.ModuleList(
            nn.LSTMCell(config.width, config.width) for _ in range(config.layers - 1)
        )

    def teacher_forced(
        self,
        values: Tensor,
        mask: Tensor,
        targets: Tensor,
        noise: float = 0.0,
        first: LSTMState | None = None,
        classes: Tensor | None = None,
    ) -> Decoded:
        """Return the pass over whole utterances whose symbols are known.

        Args:
            values: (B, T, H) encoder frames.
            mask: (B, T) true on frames, false on padding.
            targets: (B, U) symbols, any index on padding.
            noise: standard deviation of the monotonic attention's pre-sigmoid noise.
            first: the LSTM's state before the first symbol, (B, L H); zeros if None.
            classes: (C,) the logits that are wanted, for a sampled softmax; all if None.
        """
        attention: Attention = self.attention
        keys, steps = attention.keys(values, mask), list[Attended]()

        def context(query: Tensor) -> Tensor:
            memory = steps[-1].memory if steps else attention.first(mask)
            steps.append(attention.attend(query, keys, memory, noise))
            return steps[-1].context

        previous = nn.functional.pad(targets, (1, 0), value=self.start)  # y_0, y_1, ...
        read = self.readout(self.states(previous, context, first))
        read = read if self.ends else read[:, :-1]
        if classes is None:
            return self.decoded(self.output(read), steps)
        weight, bias = self.output.weight[classes], self.output.bias[classes]
        return self.decoded(nn.functional.linear(read, weight, bias), steps)

    def without_audio(self, targets: Tensor) -> Tensor:
        """Return (B, U, V) logits of symbols (B, U) given those before them, with zero contexts.

        The decoder learns to spell from text alone with them (text_loss in training).
        """
        before = nn.functional.pad(targets[:, :-1], (1, 0), value=self.start)
        silence = self.embedding.weight.new_zeros(len(targets), self.encoder_width)
        return self.output(self.readout(self.states(before, lambda query: silence)))

    def states(
        self,
        previous: Tensor,
        context: Callable[[Tensor], Tensor],
        first: LSTMState | None = None,
    ) -> Tensor:
        """Return (B, U, R), what the output reads after each of the known symbols.

        Args:
            previous: (B, U) symbols, the start first.
            context: called with the (B, H) query of each symbol in order; returns its (B, H')
                context.
            first: the LSTM's state before the first symbol; zeros if None.
        """
        raise NotImplementedError

    def query(self, memory: Memory) -> Tensor:
        """Return the (S, H) query for the next symbol's context."""
        return self.top(memory.lstm.hidden)

    def write(self, context: Tensor, memory: Memory) -> tuple[Tensor, Output]:
        """Return the next symbol's logits (S, V) given its (S, H) context."""
        raise NotImplementedError

    def read(self, symbol: Tensor, output: Output) -> Memory:
        """Return the memory after the symbols (S,) that were chosen."""
        raise NotImplementedError

    def beginning(self, streams: int, first: LSTMState | None = None) -> Memory:
        """Return the memory before the first symbol, given the LSTM's first state (S, L H)."""
        raise NotImplementedError

    def zeros(self, like: Tensor, streams: int) -> LSTMState:
        """Return the LSTM's first state where nothing else is said."""
        zeros = like.new_zeros(streams, self.state_width)
        return LSTMState(zeros, zeros)

    @property
    def state_width(self) -> int:
        """L H, the width of the LSTM's state with all its layers."""
        return self.lstm.hidden_size * (1 + len(self.upper))

    def bottom(self, state: LSTMState) -> LSTMState:
        """Return the first layer's part of a state (S, L H)."""
        if not self.upper:
            return state
        width = self.lstm.hidden_size
        return LSTMState(state.hidden[:, :width], state.cell[:, :width])

    def top(self, hidden: Tensor) -> Tensor:
        """Return the last layer's part of (S, L H) hidden states."""
        return hidden[:, -self.lstm.hidden_size :] if self.upper else hidden

    def climb(self, first: LSTMState, before: LSTMState) -> LSTMState:
        """Return the new state (S, L H), given the first layer's new one and the old of all."""
        if not self.upper:
            return first
        width, states = self.lstm.hidden_size, [first]
        for place, cell in enumerate(self.upper, 1):
            old = [part[:, place * width : (place + 1) * width] for part in before]
            states.append(LSTMState(*cell(states[-1].hidden, tuple(old))))
        hidden, cells = (torch.cat(parts, 1) for parts in zip(*states, strict=True))
        return LSTMState(hidden, cells)

    def stepped(self, symbol: Tensor, beside: Tensor, state: LSTMState) -> LSTMState:
        """Return the state (S, L H) after symbols (S,), read with what is beside them (S, H)."""
        inputs = torch.cat([self.embedding(symbol), beside], 1)
        return self.climb(LSTMState(*self.lstm(inputs, self.bottom(state))), state)

    def known(self, symbols: Tensor) -> tuple[Tensor, SharedMatrix]:
        """Return (U, B, 4 H), what known symbols (B, U) give the first LSTM's gates; other weights.

        Those are of what is read beside a symbol and of the hidden state, for `stepped_known`.
        """
        cell, width = self.lstm, self.embedding.embedding_dim
        embedded = self.embedding(symbols.t()) @ cell.weight_ih[:, :width].t()
        others = torch.cat([cell.weight_ih[:, width:], cell.weight_hh], 1)
        return embedded + (cell.bias_ih + cell.bias_hh), SharedMatrix(others.t())

    def stepped_known(
        self, given: Tensor, others: SharedMatrix, beside: Tensor, state: LSTMState
    ) -> LSTMState:
        """Return what `stepped` does, from what `known` gave for the symbols (B, 4 H)."""
        below = self.bottom(state)
        gates = given + others.multiply(torch.cat([beside, below.hidden], 1))
        i, f, g, o = gates.chunk(4, 1)
        return self.climb(lstm_cell(i, f, g, o, below.cell), state)

    def decoded(self, logits: Tensor, steps: list[Attended]) -> Decoded:
        """Return the results of a pass, given its logits and each symbol's attention."""
        weights = torch.stack([one.weights for one in steps], 1)
        if not self.online:
            return Decoded(logits, weights, None, weights)
        energies = torch.stack([one.energies for one in steps if one.energies is not None], 1)
        return Decoded(logits, torch.stack([one.memory for one in steps], 1), energies, weights)

    def initial_state(self, batch: int) -> DecoderState:
        """Return the state of streams without audio yet.

        Raises: ValueError where the attention needs whole utterances, or the decoder writes an end.
        """
        if not self.online:
            name = type(self.attention).__name__
            raise ValueError(f"expected a monotonic attention for a stream, got {name}")
        if self.ends:
            raise ValueError(
                "expected a decoder without an end of sequence for a stream, got one for texts"
            )
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
        if not x.shape[1]:
            return state.symbol.new_empty(len(x), 0, self.cap), state
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
            # on a GPU the question would wait for the device
            if not scanning.is_cuda and not scanning.any():
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
    return merged(memory, new, lambda a, b: torch.where(rows if a.dim() == 1 else wide, b, a))


def push(window: Tensor, newest: Tensor) -> Tensor:
    """Return the (S, w, ...) window with its oldest entry dropped and the (S, ...) newest added."""
    return torch.cat([window[:, 1:], newest.unsqueeze(1)], 1)
