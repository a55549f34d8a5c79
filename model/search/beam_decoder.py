"""Beam search over a decoder in PyTorch: the reference, for every monotonic attention."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cortado.model.attention.interface import MonotonicAttention
from cortado.model.decoder.decoder import AttentionDecoder, Memory, push
from cortado.model.emission import Emissions
from cortado.model.encoder.lstm import LSTMState
from cortado.model.layer import Layer, select
from cortado.model.search import beam as search
from cortado.model.search.commit import commit, uncommitted
from cortado.model.search.hearing import begin_frame
from cortado.model.search.hypotheses import Candidates, Hypotheses, candidates, hypotheses, restart
from cortado.model.search.phrases import Expected
from cortado.model.search.settings import Beam, max_committed
from cortado.model.search.survivors import prune

CtcLogits = Callable[[NDArray[np.float32]], NDArray[np.float32]]


class SearchState(NamedTuple):
    """The search's state: K hypotheses of each of S streams."""

    hidden: Tensor  # (S, K, D) of the decoder's LSTM
    cell: Tensor  # (S, K, D)
    symbol: Tensor  # (S, K) the last symbol written
    valid: Tensor  # (S, K, w) false on frames that a chunk may not reach
    keys: Tensor  # (S, w, d) chunk keys of the last w encoder frames
    values: Tensor  # (S, w, H) the last w encoder frames
    hypotheses: tuple[Tensor, ...]  # of `Hypotheses`

    @property
    def per_hypothesis(self) -> tuple[Tensor, ...]:
        """The parts with a hypothesis on dim 1."""
        return self.hidden, self.cell, self.symbol, self.valid

    def expecting(self, phrases: Expected) -> "SearchState":
        """Return the state of one stream that expects phrases."""
        parts = dict(zip(Hypotheses._fields, self.hypotheses, strict=True))
        tree, phones = (torch.from_numpy(part).unsqueeze(0) for part in phrases)
        return self._replace(hypotheses=tuple((parts | {"trees": tree, "sounds": phones}).values()))

    def own_hypotheses(self) -> Hypotheses:
        """Return a copy of the hypotheses: a step must not change the state that it was given."""
        return Hypotheses(*(part.numpy().copy() for part in self.hypotheses))


class _DecoderStates:
    """Decoder states: those of the S K hypotheses before the frame, then those made at it."""

    def __init__(self, state: SearchState) -> None:
        self.parts = [part.flatten(0, 1) for part in state.per_hypothesis]

    def __len__(self) -> int:
        return len(self.parts[0])

    def at(self, index: Tensor) -> tuple[Memory, Tensor]:
        hidden, cell, symbol, valid = (part[index] for part in self.parts)
        return Memory(LSTMState(hidden, cell), symbol), valid

    def add(self, memory: Memory, valid: Tensor) -> None:
        new = (*memory.lstm, memory.symbol, valid)
        self.parts = [torch.cat(pair) for pair in zip(self.parts, new, strict=True)]


def _tensors(h: Hypotheses) -> tuple[Tensor, ...]:
    return tuple(map(torch.from_numpy, h))


class BeamSearch(Layer):
    """Encoder frames (S, T, H) to emissions (S, T, n, 3), by several hypotheses.

    An emission is a committed symbol, -1 for none, its lateness in frames, and its confidence in
    thousandths.
    """

    def __init__(
        self, decoder: AttentionDecoder, ctc: CtcLogits, beam: Beam, cap: int, phones: int = 0
    ) -> None:
        """Take a decoder whose attention is monotonic, and the heads that hear beside it.

        Args:
            decoder: the decoder.
            ctc: gives the heads' (S, V + 1 + P or more) logits of (S, H) encoder frames, the
                blank first, each row summed in the same order whatever the batch.
            beam: settings of the search.
            cap: most symbols at one frame.
            phones: P, outputs of the phone head.
        """
        super().__init__()
        self._decoder, self._ctc, self._beam, self._cap = decoder, ctc, beam, cap
        self._phones = phones

    def initial_state(self, batch: int) -> SearchState:
        """Return the state of streams without audio yet."""
        one = self._decoder.initial_state(batch)
        width = self._beam.width
        each = (one.lstm.hidden, one.lstm.cell, one.symbol, one.valid)
        wide = [part.unsqueeze(1).repeat(1, width, *[1] * (part.dim() - 1)) for part in each]
        fresh = hypotheses(batch, self._beam, self._cap, self._decoder.start, self._phones)
        hidden, cell, symbol, valid = wide
        return SearchState(hidden, cell, symbol, valid, one.keys, one.values, _tensors(fresh))

    def step(self, x: Tensor, state: SearchState) -> tuple[Tensor, SearchState]:
        """Return the emissions (S, T, n, 3) of the next (S, T, H) encoder frames."""
        found = []
        for value in x.unbind(1):
            emissions, state = self._scan(value, state)
            found.append(emissions)
        return torch.stack(found, 1), state

    def _scan(self, value: Tensor, state: SearchState) -> tuple[Tensor, SearchState]:
        """Return the emissions (S, n, 3) of one (S, H) encoder frame."""
        decoder, beam, cap = self._decoder, self._beam, self._cap
        scan: MonotonicAttention = decoder.attention
        streams, width = state.symbol.shape
        key = scan.scan_key(value)
        keys, values = push(state.keys, scan.chunk_key(value)), push(state.values, value)
        reachable = torch.ones(streams * width, dtype=torch.bool)
        valid = push(state.valid.flatten(0, 1), reachable).view_as(state.valid)
        state = state._replace(valid=valid, keys=keys, values=values)
        h = state.own_hypotheses()
        e = candidates(streams, beam, cap, decoder.start, self._phones)
        states, rows = _DecoderStates(state), np.arange(streams)
        scanning = begin_frame(rows, self._ctc(value.numpy()), beam, h, e)
        for count in range(cap + 1):
            index, of = self._places(e.scanning[:scanning], e, state)
            energies = scan.energy(decoder.query(states.at(index)[0]), key[of])
            stopping = search.stop(scanning, energies.numpy(), count, cap, beam, e)
            if stopping == 0:
                break
            index, of = self._places(e.stopping[:stopping], e, state)
            memory, valid = states.at(index)
            context = scan.context(decoder.query(memory), keys[of], values[of], valid)
            logits, output = decoder.write(context, memory)
            scanning = search.extend(stopping, logits.numpy().copy(), logits.shape[1], 0, beam, e)
            r, k = e.scanning[:scanning].T
            parents = torch.from_numpy(e.slots[r, k])
            symbols = torch.from_numpy(e.written[r, k, count].astype(np.int64))
            e.slots[r, k] = len(states) + np.arange(scanning)
            stopped = torch.ones(scanning, dtype=torch.bool)
            new = decoder.read(symbols, select(output, parents))
            states.add(new, scan.stopped(valid[parents], stopped))
        moves = torch.from_numpy(e.moves[: prune(rows, beam, h, e)])
        to, slots = (moves[:, 0], moves[:, 1]), moves[:, 2]
        hidden, cell, symbol, valid = (
            old.index_put(to, new[slots])
            for old, new in zip(state.per_hypothesis, states.parts, strict=True)
        )
        emissions = Emissions.nothing(streams, max_committed(beam, cap))
        commit(rows, beam, h, e, *emissions)
        new_state = SearchState(hidden, cell, symbol, valid, keys, values, _tensors(h))
        return torch.from_numpy(np.stack(emissions, 2)), new_state

    def _places(
        self, chosen: NDArray[np.int64], e: Candidates, state: SearchState
    ) -> tuple[Tensor, Tensor]:
        """Return the places of candidates' decoder states, and their streams.

        Both are padded to one length: products of other sizes round differently.
        """
        streams, width = state.symbol.shape
        r, k = chosen.T
        places = np.where(e.slots[r, k] < 0, r * width + e.origins[r, k], e.slots[r, k])
        padded = np.zeros((2, streams * width), np.int64)
        padded[:, : len(r)] = places, r
        index, of = torch.from_numpy(padded)
        return index, of

    def restarted(self, state: SearchState) -> tuple[Emissions, SearchState]:
        """Return the uncommitted symbols, and the state with the decoder's part as at the start."""
        streams = len(state.symbol)
        h = state.own_hypotheses()
        rows = np.arange(streams)
        rest = uncommitted(rows, self._beam, h)
        restart(rows, h)
        fresh = self.initial_state(streams)
        return rest, fresh._replace(
            valid=state.valid, keys=state.keys, values=state.values, hypotheses=_tensors(h)
        )
