"""The search of a tile of streams, compiled: `model.search` over this backend's numbers.

Every hypothesis keeps its query, so that a frame at which it does not stop costs a sum of tanh.
Those that stop write together, as many as a tile holds; what they write shares the state of the
LSTM, which has heard the symbol before and not yet the one that is written.
"""

import numba

from model import search
from model.fast.decoder import added, context, energy, listen
from model.fast.encoder import gated
from model.fast.integers import affine
from model.fast.layout import TILE, Array, DecoderWeights, Pool, Scratch, State
from model.fast.product import copied, product
from model.search import Beam, Entries, Hypotheses


@numba.njit(nogil=True)
def _ask(
    asked: int,
    first: int,
    few: Array,
    state: State,
    w: DecoderWeights,
    t: Scratch,
    e: Entries,
    p: Pool,
) -> None:
    """Set the energies of the hypotheses that are asked, of streams from row `first` of a tile."""
    d = state.keys.shape[2]
    for n in range(asked):
        r, k = e.asked[n]
        slot = e.slots[r, k]
        query = state.query[few[r], e.bases[r, k]] if slot < 0 else p.query[slot]
        key = t.keys[2 * (first + r) * d : (2 * (first + r) + 1) * d]
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
    width, d = state.values.shape[2], state.decoder_cell.shape[2]
    k, n_logits, n_queries = width + d, len(w.output.bias), len(w.queries.bias)
    for n in range(count):
        r, h = e.writing[n]
        row, base, slot = few[r], e.bases[r, h], e.slots[r, h]
        query = state.query[row, base] if slot < 0 else p.query[slot]
        hidden = state.decoder_hidden[row, base] if slot < 0 else p.hidden[slot]
        context(row, query, t.context[n * k : n * k + width], state, w, t)
        copied(hidden, 0, t.context, n * k + width, d)
    affine(w.lstm, t.context, k, k, t.decoder_gates, count, t.codes, t.scales)
    for n in range(count):
        r, h = e.writing[n]
        row, base, slot = few[r], e.bases[r, h], e.slots[r, h]
        cell = state.decoder_cell[row, base] if slot < 0 else p.cell[slot]
        symbol = state.symbol[row, base] if slot < 0 else e.written[r, h, e.added[r, h] - 1]
        copied(cell, 0, p.cell[start + n], 0, d)
        added(w.symbols[symbol], t.decoder_gates, 4 * n * d)
        gated(
            t.decoder_gates,
            4 * n * d,
            p.cell[start + n],
            t.context,
            n * k + width,
            p.hidden[start + n],
        )
    product(t.context, 0, k, 1, 0, k, w.output.weight, w.output.bias, t.logits, count)
    product(t.context, width, k, 1, 0, d, w.queries.weight, w.queries.bias, t.queries, count)
    for n in range(count):
        copied(t.logits, n * n_logits, p.logits[n], 0, n_logits)
        copied(t.queries, n * n_queries, p.query[start + n], 0, n_queries)


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
    cap: int,
    beam: Beam,
) -> None:
    """Advance the hypotheses of a tile's streams over its encoder frames.

    Args:
        rows: (R,) the tile's rows of the state.
        state: of all streams.
        h: hypotheses of all streams.
        w: the weights.
        t: `t.dense` encoder frames before their ReLU, `t.joined` after it.
        e: room for a frame.
        p: room for decoder states.
        symbols: (R, n) int32, set to what is told, -1 for nothing.
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
        search.tell(few, beam, h, symbols[first : first + len(few)])
