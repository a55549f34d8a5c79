"""The greedy decoder of a tile of streams, compiled: only those whose attention stops write.

The attention is asked with the decoder's state, which changes only when a symbol is written: the
query is kept and a frame without a stop costs a sum of tanh.
"""

import numba
import numpy as np

from model.fast.encoder import gated, rectified
from model.fast.integers import affine
from model.fast.layout import TILE, Array, DecoderWeights, Scratch, State
from model.fast.product import copied, product, put
from model.kernels import FAST, exp, tanh

_ZERO = np.float32(0)


@numba.njit(nogil=True, fastmath=FAST, error_model="numpy", forceinline=True)
def energy(query: Array, key: Array, direction: Array) -> np.float32:
    """Return an energy, without its bias."""
    total = _ZERO
    for k in range(len(direction)):
        total += direction[k] * tanh(query[k] + key[k])
    return total


@numba.njit(nogil=True, fastmath=FAST, error_model="numpy", forceinline=True)
def listen(rows: Array, state: State, w: DecoderWeights, t: Scratch) -> None:
    """Take the tile's encoder frames, `t.dense` and `t.joined`, into the windows of the chunks."""
    count, width, d = len(rows), state.values.shape[2], state.keys.shape[2]
    chunk, stride = state.keys.shape[1], len(t.joined) // TILE
    product(t.joined, 0, stride, 1, 0, width, w.keys.weight, w.keys.bias, t.keys, count)
    for r in range(count):
        row = rows[r]
        for k in range(chunk - 1):
            copied(state.keys[row, k + 1], 0, state.keys[row, k], 0, d)
            copied(state.values[row, k + 1], 0, state.values[row, k], 0, width)
        copied(t.keys, (2 * r + 1) * d, state.keys[row, chunk - 1], 0, d)
        rectified(t.dense, r * width, state.values[row, chunk - 1], 0, width)
        state.valid[row, 0] = min(state.valid[row, 0] + 1, chunk)


@numba.njit(nogil=True, fastmath=FAST, error_model="numpy", forceinline=True)
def context(
    row: int, query: Array, out: Array, state: State, w: DecoderWeights, t: Scratch
) -> None:
    """Store the (H,) context of a chunk that ends at the newest frame, bf16 or float32."""
    chunk, d, width = state.keys.shape[1], state.keys.shape[2], state.values.shape[2]
    first = chunk - state.valid[row, 0]
    query, weights = query[d:], t.weights
    best = np.float32(-np.inf)
    for k in range(first, chunk):
        weights[k] = energy(query, state.keys[row, k], w.directions[1]) + w.biases[1]
        best = max(best, weights[k])
    total = _ZERO
    for k in range(first, chunk):
        weights[k] = exp(weights[k] - best)
        total += weights[k]
    sums = t.sums
    for c in range(width):
        sums[c] = _ZERO
    for k in range(first, chunk):
        share, value = weights[k] / total, state.values[row, k]
        for c in range(width):
            sums[c] += share * value[c]
    for c in range(width):
        put(out, c, sums[c])


@numba.njit(nogil=True)
def added(given: Array, sums: Array, start: int) -> None:
    """Add numbers to those of a flat array."""
    taken = sums[start : start + len(given)]
    for k in range(len(given)):
        taken[k] += given[k]


@numba.njit(nogil=True)
def _write(count: int, rows: Array, state: State, w: DecoderWeights, t: Scratch) -> None:
    """Write a symbol in each of the first `count` streams of `t.rows`, rows of the tile."""
    width, d = state.values.shape[2], state.decoder_cell.shape[2]
    k, n_logits, n_queries = width + d, len(w.output.bias), len(w.queries.bias)
    for n in range(count):
        row = rows[t.rows[n]]
        context(row, state.query[row, 0], t.context[n * k : n * k + width], state, w, t)
        copied(state.decoder_hidden[row, 0], 0, t.context, n * k + width, d)
    affine(w.lstm, t.context, k, k, t.decoder_gates, count, t.codes, t.scales)
    for n in range(count):
        row = rows[t.rows[n]]
        cell, kept = state.decoder_cell[row, 0], state.decoder_hidden[row, 0]
        added(w.symbols[state.symbol[row, 0]], t.decoder_gates, 4 * n * d)
        gated(t.decoder_gates, 4 * n * d, cell, t.context, n * k + width, kept)
    product(t.context, 0, k, 1, 0, k, w.output.weight, w.output.bias, t.logits, count)
    product(t.context, width, k, 1, 0, d, w.queries.weight, w.queries.bias, t.queries, count)
    for n in range(count):
        row = rows[t.rows[n]]
        logits = t.logits[n * n_logits : n * n_logits + w.vocabulary]
        best = 0
        for v in range(1, w.vocabulary):
            if logits[v] > logits[best]:
                best = v
        state.symbol[row, 0] = best
        copied(t.queries, n * n_queries, state.query[row, 0], 0, n_queries)


@numba.njit(nogil=True)
def step(
    rows: Array, state: State, w: DecoderWeights, t: Scratch, symbols: Array, cap: int
) -> None:
    """Advance a tile's attention over its encoder frames.

    Args:
        rows: (R,) the tile's rows of the state.
        state: of all streams.
        w: the weights.
        t: `t.dense` encoder frames before their ReLU, `t.joined` after it.
        symbols: (R, cap) int32, set to the symbols that are written, -1 for none.
        cap: most symbols at one frame.
    """
    listen(rows, state, w, t)
    for r in range(len(rows)):
        for k in range(cap):
            symbols[r, k] = -1
    count, d = len(rows), state.keys.shape[2]
    for r in range(count):
        t.rows[r] = r
    for k in range(cap):
        stopped = 0
        for n in range(count):
            r = t.rows[n]
            query = state.query[rows[r], 0, :d]
            if (
                energy(query, t.keys[2 * r * d : (2 * r + 1) * d], w.directions[0]) + w.biases[0]
                >= 0
            ):
                t.rows[stopped] = r
                stopped += 1
        count = stopped
        if count == 0:
            break
        _write(count, rows, state, w, t)
        for n in range(count):
            symbols[t.rows[n], k] = state.symbol[rows[t.rows[n]], 0]
