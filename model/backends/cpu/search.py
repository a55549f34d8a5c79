"""The search of a tile of streams, compiled: `model.search.beam` over this backend's numbers.

Every hypothesis keeps its query, so that a frame at which it does not stop costs a sum of tanh.
Those that stop write together, as many as a tile holds; what they write shares the state of the
LSTM, which has heard the symbol before and not yet the one that is written.
"""

import numba

from cortado.model.backends.cpu.decoder import added, attend, energy, listen, meant
from cortado.model.backends.cpu.encoder import gated
from cortado.model.backends.cpu.layout import TILE, Array, DecoderWeights, Pool, Scratch, State
from cortado.model.compiled.integers import affine
from cortado.model.compiled.product import copied
from cortado.model.search import beam as search
from cortado.model.search.beam import Beam, Entries, Hypotheses


@numba.njit(nogil=True)
def _ask(
    count: int,
    first: int,
    few: Array,
    state: State,
    w: DecoderWeights,
    t: Scratch,
    e: Entries,
    p: Pool,
) -> None:
    """Set the energies of the hypotheses that are asked, of streams from row `first` of a tile."""
    d, frame = state.keys.shape[2], len(w.frames.bias)
    for n in range(count):
        r, k = e.asked[n]
        slot = e.slots[r, k]
        query = state.query[few[r], e.bases[r, k]] if slot < 0 else p.query[slot]
        key = t.of_frames[(first + r) * frame : (first + r) * frame + d]
        p.energies[n] = energy(query[:d], key, w.directions[0]) + w.biases[0]


@numba.njit(nogil=True)
def _write(
    count: int,
    start: int,
    few: Array,
    state: State,
    w: DecoderWeights,
    t: Scratch,
    e: Entries,
    p: Pool,
) -> None:
    """Let the hypotheses that stop move on, to slots from `start` on, and set their logits."""
    d, v, asks = state.decoder_cell.shape[2], state.logits.shape[2], state.query.shape[2]
    for n in range(count):
        r, h = e.writing[n]
        row, base, slot = few[r], e.bases[r, h], e.slots[r, h]
        query = state.query[row, base] if slot < 0 else p.query[slot]
        hidden = state.decoder_hidden[row, base] if slot < 0 else p.hidden[slot]
        query, keys, heard = query[asks // 2 :], state.keys[row], state.heard[row, 0]
        attend(query, keys, heard, w.directions[1], w.biases[1], t.shares[n])
        copied(hidden, 0, t.states, n * d, d)
    affine(w.lstm, t.states, d, d, t.decoder_gates, count, t.codes, t.scales)
    for n in range(count):
        r, h = e.writing[n]
        row, base, slot = few[r], e.bases[r, h], e.slots[r, h]
        cell = state.decoder_cell[row, base] if slot < 0 else p.cell[slot]
        symbol = state.symbol[row, base] if slot < 0 else e.written[r, h, e.added[r, h] - 1]
        copied(cell, 0, p.cell[start + n], 0, d)
        added(w.symbols[symbol], t.decoder_gates, 4 * n * d)
        meant(state.gates[row], t.shares[n], t.decoder_gates, 4 * n * d)
        cell, hidden = p.cell[start + n], p.hidden[start + n]
        gated(t.decoder_gates, 4 * n * d, cell, t.states, n * d, hidden)
    affine(w.states, t.states, d, d, t.of_states, count, t.codes, t.scales)
    for n in range(count):
        row, at = few[e.writing[n, 0]], n * (asks + v)
        meant(state.logits[row], t.shares[n], t.of_states, at + asks)
        copied(t.of_states, at, p.query[start + n], 0, asks)
        copied(t.of_states, at + asks, p.logits[n], 0, v)


@numba.njit(nogil=True)
def step(
    rows: Array,
    state: State,
    h: Hypotheses,
    w: DecoderWeights,
    t: Scratch,
    e: Entries,
    p: Pool,
    symbols: Array,
    late: Array,
    cap: int,
    beam: Beam,
) -> None:
    """Advance the hypotheses of a tile's streams over its encoder frames.

    Args:
        rows: (R,) the tile's rows of the state.
        state: of all streams.
        h: hypotheses of all streams.
        w: the weights.
        t: `t.joined`, encoder frames.
        e: room for a frame.
        p: room for decoder states.
        symbols: (R, n) int32, set to what is committed, -1 for nothing.
        late: (R, n) int32, set to the frames since it was heard.
        cap: most symbols at one frame.
        beam: how streams are searched.
    """
    listen(rows, state, w, t)
    together = TILE // beam.width
    for first in range(0, len(rows), together):
        few = rows[first : first + together]
        asked, used = search.begin(few, h, e), 0
        for k in range(cap + 1):
            _ask(asked, first, few, state, w, t, e, p)
            writing = search.divide(asked, p.energies, k < cap, beam, e)
            if writing == 0:
                break
            _write(writing, used, few, state, w, t, e, p)
            asked = search.extend(writing, p.logits, w.vocabulary, used, beam, e)
            used += writing
        for n in range(search.survive(few, beam, h, e)):
            r, k, slot = e.moves[n]
            row = few[r]
            state.query[row, k], state.decoder_hidden[row, k] = p.query[slot], p.hidden[slot]
            state.decoder_cell[row, k] = p.cell[slot]
            last = (h.first[row, 0] + h.lengths[row, k] - 1) % h.symbols.shape[2]
            state.symbol[row, k] = h.symbols[row, k, last]
        last = first + len(few)
        search.commit(few, beam, h, symbols[first:last], late[first:last])
