"""The search of beam.py over a decoder in PyTorch: the reference, for every attention."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cortado.model.attention.interface import MonotonicAttention
from cortado.model.decoder.decoder import AttentionDecoder, Memory, push
from cortado.model.emission import Emissions
from cortado.model.encoder.lstm import LSTMState
from cortado.model.layer import Layer
from cortado.model.search import beam as search
from cortado.model.search.beam import Beam, Hypotheses
from cortado.model.search.expected_beam import chosen


class SearchState(NamedTuple):
    """What a search remembers of each stream, whose hypotheses are K."""

    hidden: Tensor  # (S, K, D) of the decoder's LSTM
    cell: Tensor  # (S, K, D)
    symbol: Tensor  # (S, K) the last written
    valid: Tensor  # (S, K, w) false on frames that a chunk may not reach
    keys: Tensor  # (S, w, d) chunk keys of the last w encoder frames
    values: Tensor  # (S, w, H) the last w encoder frames
    hypotheses: tuple[Tensor, ...]  # of `search.Hypotheses`

    @property
    def moving(self) -> tuple[Tensor, ...]:
        """What is of each hypothesis."""
        return self.hidden, self.cell, self.symbol, self.valid

    def own_hypotheses(self) -> Hypotheses:
        """Return the bookkeeping, copied: a step leaves the state that it was given as it is."""
        return Hypotheses(*(part.numpy().copy() for part in self.hypotheses))


class _Pool:
    """Decoder states: those of the hypotheses (S K of them), then those that they move on to."""

    def __init__(self, state: SearchState) -> None:
        self.parts = [part.flatten(0, 1) for part in state.moving]

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
    """Encoder frames (S, T, H) to emissions (S, T, n, 2), by several hypotheses.

    An emission is a symbol, -1 for none, and the frames since it was heard.
    """

    def __init__(self, decoder: AttentionDecoder, beam: Beam, cap: int) -> None:
        """Take a decoder whose attention is monotonic; `cap` symbols a frame at most."""
        super().__init__()
        self._decoder, self._beam, self._cap = decoder, beam, cap

    def initial_state(self, batch: int) -> SearchState:
        """Return the state of streams that have written nothing."""
        one = self._decoder.initial_state(batch)
        width = self._beam.width
        each = (one.lstm.hidden, one.lstm.cell, one.symbol, one.valid)
        wide = [part.unsqueeze(1).repeat(1, width, *[1] * (part.dim() - 1)) for part in each]
        fresh = search.hypotheses(batch, self._beam, self._cap)
        hidden, cell, symbol, valid = wide
        return SearchState(hidden, cell, symbol, valid, one.keys, one.values, _tensors(fresh))

    def step(self, x: Tensor, state: SearchState) -> tuple[Tensor, SearchState]:
        """Return what is committed at the next (S, T, H) encoder frames."""
        found = []
        for value in x.unbind(1):
            emissions, state = self._scan(value, state)
            found.append(emissions)
        return torch.stack(found, 1), state

    def _scan(self, value: Tensor, state: SearchState) -> tuple[Tensor, SearchState]:
        """Return what is committed (S, n, 2) at one (S, H) encoder frame."""
        decoder, beam, cap = self._decoder, self._beam, self._cap
        scan: MonotonicAttention = decoder.attention
        streams, width = state.symbol.shape
        key = scan.scan_key(value)
        keys, values = push(state.keys, scan.chunk_key(value)), push(state.values, value)
        heard = torch.ones(streams * width, dtype=torch.bool)
        valid = push(state.valid.flatten(0, 1), heard).view_as(state.valid)
        state = state._replace(valid=valid, keys=keys, values=values)
        h = state.own_hypotheses()
        e, pool, rows = search.entries(streams, beam, cap), _Pool(state), np.arange(streams)
        asked = search.begin(rows, h, e)
        for count in range(cap + 1):
            index, of = self._places(e.asked[:asked], e, state)
            energies = scan.energy(decoder.query(pool.at(index)[0]), key[of])
            writing = search.divide(asked, energies.numpy(), count < cap, beam, e)
            if writing == 0:
                break
            index, of = self._places(e.writing[:writing], e, state)
            memory, valid = pool.at(index)
            context = scan.context(decoder.query(memory), keys[of], values[of], valid)
            logits, output = decoder.write(context, memory)
            asked = search.extend(writing, logits.numpy().copy(), logits.shape[1], 0, beam, e)
            r, k = e.asked[:asked].T
            parents = torch.from_numpy(e.slots[r, k])
            symbols = torch.from_numpy(e.written[r, k, count].astype(np.int64))
            e.slots[r, k] = len(pool) + np.arange(asked)
            stopped = torch.ones(asked, dtype=torch.bool)
            new = decoder.read(symbols, chosen(output, parents))
            pool.add(new, scan.stopped(valid[parents], stopped))
        moves = torch.from_numpy(e.moves[: search.survive(rows, beam, h, e)])
        to, slots = (moves[:, 0], moves[:, 1]), moves[:, 2]
        hidden, cell, symbol, valid = (
            old.index_put(to, new[slots]) for old, new in zip(state.moving, pool.parts, strict=True)
        )
        emissions = Emissions.nothing(streams, search.most_committed(beam, cap))
        search.commit(rows, beam, h, *emissions)
        kept = SearchState(hidden, cell, symbol, valid, keys, values, _tensors(h))
        return torch.from_numpy(np.stack(emissions, 2)), kept

    def _places(
        self, entries: NDArray[np.int64], e: search.Entries, state: SearchState
    ) -> tuple[Tensor, Tensor]:
        """Return where the decoder states of entries lie in the pool, and which streams' they are.

        Both are made as long as they may ever be: products of other sizes give other bits.
        """
        streams, width = state.symbol.shape
        r, k = entries.T
        places = np.where(e.slots[r, k] < 0, r * width + e.bases[r, k], e.slots[r, k])
        padded = np.zeros((2, streams * width), np.int64)
        padded[:, : len(r)] = places, r
        index, of = torch.from_numpy(padded)
        return index, of

    def renewed(self, state: SearchState) -> tuple[Emissions, SearchState]:
        """Return what is not committed, and the state of streams that have written nothing."""
        streams = len(state.symbol)
        h = state.own_hypotheses()
        rows = np.arange(streams)
        rest = search.uncommitted(rows, h)
        search.renew(rows, h)
        fresh = self.initial_state(streams)
        return rest, fresh._replace(
            valid=state.valid, keys=state.keys, values=state.values, hypotheses=_tensors(h)
        )
