"""The greedy decoder of a tile of streams, compiled: only those whose attention stops write.

The query depends on the decoder's state, which changes only when a symbol is written. So the query
is stored, and a frame without a stop costs one energy.
"""

import numpy as np

from cortado.model.arrays import Array
from cortado.model.backends.cpu.encoder import lstm_cell
from cortado.model.backends.cpu.layout import TILE, DecoderWeights, NewStates, Scratch, State
from cortado.model.backends.heads import BLANK
from cortado.model.compiled.cell import add_to
from cortado.model.compiled.functions import FAST, exp, tanh
from cortado.model.compiled.integers import affine
from cortado.model.compiled.jit import uncounted
from cortado.model.compiled.product import copied, stored, wide

_ZERO = np.float32(0)


@uncounted(fastmath=FAST, error_model="numpy", forceinline=True)
def energy(query: Array, key: Array, direction: Array) -> np.float32:
    """Return an energy, without its bias."""
    total = _ZERO
    for k in range(len(direction)):
        total += direction[k] * tanh(query[k] + key[k])
    return total


@uncounted(fastmath=FAST, error_model="numpy", forceinline=True)
def _blank(logits_of_frames: Array, start: int, vocabulary: int) -> bool:
    """Return whether a blank, the first of the CTC head's logits, has a probability of BLANK."""
    logits, others = logits_of_frames[start : start + vocabulary + 1], _ZERO
    for v in range(1, len(logits)):
        others += exp(min(logits[v] - logits[0], _ZERO))
        if logits[v] > logits[0]:
            return False
    return bool(BLANK * (1 + others) <= 1)


@uncounted(fastmath=FAST, error_model="numpy", forceinline=True)
def store_frames(
    rows: Array, state: State, w: DecoderWeights, t: Scratch, of_frames: Array
) -> None:
    """Add the tile's encoder frames, `t.joined`, to the windows of the chunks.

    `of_frames` is set to their products with `w.frames`, flat.
    """
    chunk, stride = state.keys.shape[1], len(t.joined) // TILE
    d, gates, v = state.keys.shape[2], state.gates.shape[2], state.logits.shape[2]
    count, width, n = len(rows), len(t.dense) // TILE, len(w.frames.bias)
    affine(w.frames, t.joined, stride, width, of_frames, count, t.codes, t.scales)
    affine(w.frame_gates, t.joined, stride, width, t.gates, count, t.codes, t.scales)
    for r in range(count):
        row, at = rows[r], r * n
        k = state.frame_count[row, 0] % chunk
        copied(of_frames, at + d, state.keys[row, k], 0, d)
        stored(t.gates, r * gates, state.gates[row, k])
        copied(of_frames, at + 2 * d, state.logits[row, k], 0, v)
        state.frame_count[row, 0] += 1
        state.blank[row, 0] = _blank(of_frames, at + 2 * d + v, w.vocabulary)


@uncounted(fastmath=FAST, error_model="numpy", forceinline=True)
def attention_weights(
    query: Array, keys: Array, frame_count: int, direction: Array, bias: np.float32, weights: Array
) -> None:
    """Set the (w,) attention weights of a query over the last frames, softmax of their energies."""
    some, best, total = min(frame_count, len(keys)), np.float32(-np.inf), _ZERO
    for k in range(some):
        weights[k] = energy(query, keys[k], direction) + bias
        best = max(best, weights[k])
    for k in range(some):
        weights[k] = exp(weights[k] - best)
        total += weights[k]
    for k in range(len(weights)):
        weights[k] = weights[k] / total if k < some else _ZERO


@uncounted(fastmath=FAST, error_model="numpy", forceinline=True)
def add_mean(frames: Array, weights: Array, sums: Array, start: int) -> None:
    """Add the mean of frames (w, N), by weights (w,), to a flat array from `start` on."""
    taken = sums[start : start + frames.shape[1]]
    for k in range(len(frames)):
        weight, given = weights[k], frames[k]
        for c in range(len(taken)):
            taken[c] += weight * wide(given, c)


@uncounted()
def _write(
    count: int, rows: Array, state: State, w: DecoderWeights, t: Scratch, new: NewStates
) -> None:
    """Write a symbol in each of the first `count` streams of `t.rows`, rows of the tile."""
    d, v, query_width = state.decoder_cell.shape[2], state.logits.shape[2], state.query.shape[2]
    for n in range(count):
        row, weights = rows[t.rows[n]], t.chunk_weights[n]
        query = state.query[row, 0, query_width // 2 :]
        attention_weights(
            query, state.keys[row], state.frame_count[row, 0], w.directions[1], w.biases[1], weights
        )
        copied(state.decoder_hidden[row, 0], 0, t.states, n * d, d)
    affine(w.lstm, t.states, d, d, t.decoder_gates, count, t.codes, t.scales)
    for n in range(count):
        row = rows[t.rows[n]]
        cell, hidden = state.decoder_cell[row, 0], state.decoder_hidden[row, 0]
        add_to(w.symbols[state.symbol[row, 0]], t.decoder_gates[4 * n * d : 4 * (n + 1) * d])
        add_mean(state.gates[row], t.chunk_weights[n], t.decoder_gates, 4 * n * d)
        lstm_cell(t.decoder_gates, 4 * n * d, cell, t.states, n * d, hidden)
    affine(w.states, t.states, d, d, t.of_states, count, t.codes, t.scales)
    for n in range(count):
        row, logits, at = rows[t.rows[n]], new.logits[n], n * (query_width + v)
        add_mean(state.logits[row], t.chunk_weights[n], t.of_states, at + query_width)
        copied(t.of_states, at, state.query[row, 0], 0, query_width)
        copied(t.of_states, at + query_width, logits, 0, v)
        best = 0
        for symbol in range(1, w.vocabulary):
            if logits[symbol] > logits[best]:
                best = symbol
        state.symbol[row, 0] = best


@uncounted()
def step(
    rows: Array,
    state: State,
    w: DecoderWeights,
    t: Scratch,
    of_frames: Array,
    new: NewStates,
    symbols: Array,
    cap: int,
) -> None:
    """Advance a tile's attention over its encoder frames.

    Args:
        rows: (R,) the tile's rows of the state.
        state: of all streams.
        w: the weights.
        t: `t.joined`, encoder frames.
        of_frames: set to their products with `w.frames`, flat.
        new: memory for logits.
        symbols: (R, cap) int32, set to the symbols that are written, -1 for none.
        cap: most symbols at one frame.
    """
    store_frames(rows, state, w, t, of_frames)
    for r in range(len(rows)):
        for k in range(cap):
            symbols[r, k] = -1
    count, d, frame = len(rows), state.keys.shape[2], len(w.frames.bias)
    for r in range(count):
        t.rows[r] = r
    for k in range(cap):
        stopped = 0
        for n in range(count):
            r = t.rows[n]
            query = state.query[rows[r], 0, :d]
            key = of_frames[r * frame : r * frame + d]
            if energy(query, key, w.directions[0]) + w.biases[0] >= 0:
                t.rows[stopped] = r
                stopped += 1
        count = stopped
        if count == 0:
            break
        _write(count, rows, state, w, t, new)
        for n in range(count):
            symbols[t.rows[n], k] = state.symbol[rows[t.rows[n]], 0]
