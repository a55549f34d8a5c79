"""Beam search of a few streams, compiled: the decoder's side of `model.search.beam`.

Every hypothesis keeps its query, so a frame at which it does not stop costs one energy. Hypotheses
that stop are computed together. The extensions of one hypothesis share its
LSTM state, which has read the symbol before and not yet the new one. Where several of them stop at
a frame, their attention and the product of their hidden state with the gates' weights are one.
"""

import numpy as np

from cortado.model.arrays import Array
from cortado.model.backends.cpu.decoder import add_mean, attention_weights, energy
from cortado.model.backends.cpu.encoder import lstm_cell
from cortado.model.backends.cpu.layout import DecoderWeights, NewStates, Scratch, State
from cortado.model.compiled.cell import add_to
from cortado.model.compiled.integers import affine
from cortado.model.compiled.jit import inlined, uncounted
from cortado.model.compiled.product import copied
from cortado.model.search import beam as search
from cortado.model.search.commit import commit
from cortado.model.search.hearing import begin_frame
from cortado.model.search.hypotheses import Candidates, Hypotheses
from cortado.model.search.settings import Beam
from cortado.model.search.survivors import prune


@inlined
def _ask(
    count: int,
    few: Array,
    frames: Array,
    state: State,
    w: DecoderWeights,
    e: Candidates,
    new: NewStates,
) -> None:
    """Set the energies of scanning candidates at the `frames` of the streams in `few`."""
    d = state.keys.shape[2]
    for n in range(count):
        r, k = e.scanning[n]
        slot = e.slots[r, k]
        query = state.query[few[r], e.origins[r, k]] if slot < 0 else new.query[slot]
        new.energies[n] = energy(query[:d], frames[r, :d], w.directions[0]) + w.biases[0]


@uncounted(forceinline=True)
def _equal(one: Array, other: Array) -> bool:
    k = 0
    while k < len(one) and one[k] == other[k]:
        k += 1
    return k == len(one)


@uncounted(forceinline=True)
def _alike(n: int, few: Array, state: State, e: Candidates) -> int:
    """Return a stopping candidate before `n` with the same hidden state, or `n` if there is none.

    Those of one slot have it, and so have hypotheses that come from one slot of an earlier frame.
    """
    r, h = e.stopping[n]
    slot, hidden = e.slots[r, h], state.decoder_hidden[few[r]]
    other = n - 1
    while other >= 0 and e.stopping[other, 0] == r:
        k = e.stopping[other, 1]
        if e.slots[r, k] == slot and (
            slot >= 0 or _equal(hidden[e.origins[r, k]], hidden[e.origins[r, h]])
        ):
            return other
        other -= 1
    return n


@inlined
def _write(
    count: int,
    start: int,
    few: Array,
    state: State,
    w: DecoderWeights,
    t: Scratch,
    e: Candidates,
    new: NewStates,
) -> None:
    """Step the decoder of stopping candidates into slots from `start` on; set their logits."""
    d, v, query_width = state.decoder_cell.shape[2], state.logits.shape[2], state.query.shape[2]
    products = 0
    for n in range(count):
        other = _alike(n, few, state, e)
        if other < n:
            t.shared[n] = t.shared[other]
            continue
        r, h = e.stopping[n]
        row, base, slot = few[r], e.origins[r, h], e.slots[r, h]
        query = state.query[row, base] if slot < 0 else new.query[slot]
        hidden = state.decoder_hidden[row, base] if slot < 0 else new.hidden[slot]
        query, keys = query[query_width // 2 :], state.keys[row]
        frame_count, weights = state.frame_count[row, 0], t.chunk_weights[products]
        attention_weights(query, keys, frame_count, w.directions[1], w.biases[1], weights)
        copied(hidden, 0, t.states, products * d, d)
        t.shared[n] = products
        products += 1
    affine(w.lstm, t.states, d, d, t.decoder_gates, products, t.codes, t.scales)
    for n in range(count):
        r, h = e.stopping[n]
        row, base, slot = few[r], e.origins[r, h], e.slots[r, h]
        cell = state.decoder_cell[row, base] if slot < 0 else new.cell[slot]
        symbol = state.symbol[row, base] if slot < 0 else e.written[r, h, e.written_count[r, h] - 1]
        copied(cell, 0, new.cell[start + n], 0, d)
        copied(t.decoder_gates, 4 * t.shared[n] * d, t.own_gates, 0, 4 * d)
        add_to(w.symbols[symbol], t.own_gates)
        add_mean(state.gates[row], t.chunk_weights[t.shared[n]], t.own_gates, 0)
        cell, hidden = new.cell[start + n], new.hidden[start + n]
        lstm_cell(t.own_gates, 0, cell, t.states, n * d, hidden)
    affine(w.states, t.states, d, d, t.of_states, count, t.codes, t.scales)
    for n in range(count):
        row, at = few[e.stopping[n, 0]], n * (query_width + v)
        add_mean(state.logits[row], t.chunk_weights[t.shared[n]], t.of_states, at + query_width)
        copied(t.of_states, at, new.query[start + n], 0, query_width)
        copied(t.of_states, at + query_width, new.logits[n], 0, v)


@inlined
def step(
    few: Array,
    frames: Array,
    state: State,
    h: Hypotheses,
    w: DecoderWeights,
    t: Scratch,
    e: Candidates,
    new: NewStates,
    symbols: Array,
    late: Array,
    confidence: Array,
    cap: int,
    beam: Beam,
) -> None:
    """Advance the hypotheses of some streams over their encoder frames.

    Args:
        few: (R,) the streams' rows of the state, at most TILE / K.
        frames: (R, 2 d + V + U) the products of their frames with `w.frames`.
        state: of all streams.
        h: hypotheses of all streams.
        w: the weights.
        t: memory for products.
        e: memory for a frame's candidates.
        new: memory for decoder states.
        symbols: (R, n) int32, set to the committed symbols, -1 for none.
        late: (R, n) int32, set to the frames from each symbol's own to the newest.
        confidence: (R, n) int32, set to the confidence of each in thousandths.
        cap: most symbols at one frame.
        beam: settings of the search.
    """
    width = state.decoder_cell.shape[2]
    heard = frames[:, 2 * state.keys.shape[2] + state.logits.shape[2] :]
    scanning = begin_frame(few, heard, beam, h, e)
    used = np.int64(0)  # a plain 0 is a type of its own, for which all is compiled once more
    for k in range(cap + 1):
        _ask(scanning, few, frames, state, w, e, new)
        stopping = search.stop(scanning, new.energies, k, cap, beam, e)
        if stopping == 0:
            break
        _write(stopping, used, few, state, w, t, e, new)
        scanning = search.extend(stopping, new.logits, w.vocabulary, used, beam, e)
        used += stopping
    for n in range(prune(few, beam, h, e)):
        r, k, slot = e.moves[n]
        row = few[r]
        copied(new.query[slot], 0, state.query[row, k], 0, state.query.shape[2])
        copied(new.hidden[slot], 0, state.decoder_hidden[row, k], 0, width)
        copied(new.cell[slot], 0, state.decoder_cell[row, k], 0, width)
        last = (h.first[row, 0] + h.lengths[row, k] - 1) % h.symbols.shape[2]
        state.symbol[row, k] = h.symbols[row, k, last]
    commit(few, beam, h, e, symbols, late, confidence)
