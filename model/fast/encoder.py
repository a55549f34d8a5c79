"""The encoder of a tile of streams, compiled: convolutions stream by stream, layers together."""

import numba
import numpy as np

from model.encoder import FREQUENCIES, PLANES
from model.fast.layout import (
    CHANNELS,
    FIRST,
    SECOND,
    THIRD,
    TILE,
    Array,
    Convolutions,
    Layer,
    Scratch,
    State,
)
from model.fast.product import copied, product, put
from model.features import MELS
from model.kernels import FAST, sigmoid, tanh

_NONE = np.float32(0)
_INPUTS = FREQUENCIES * CHANNELS  # of the first recurrent layer
_C = CHANNELS


@numba.njit(nogil=True, fastmath=FAST, error_model="numpy")
def rectified(sums: Array, out: Array, start: int, count: int) -> None:
    """Store max(0, x) of the first numbers of a flat float32 array from `start` on."""
    for k in range(count):
        put(out, start + k, max(sums[k], _NONE))


@numba.njit(nogil=True)
def _twice_halved(r: int, row: int, state: State, w: Convolutions, t: Scratch) -> None:
    """Set `t.frames2[0]` to the second convolution's frame of a stream."""
    step = PLANES + 1
    copied(state.conv2[row], 0, t.frames1, 0, SECOND)
    for frame in range(2):
        start = (r * 5 + 2 * frame) * FIRST
        product(
            t.planes,
            start,
            2 * step,
            3,
            FIRST,
            3 * step,
            w.conv1.weight,
            w.conv1.bias,
            t.sums1,
            MELS // 2,
        )
        rectified(t.sums1, t.frames1, (frame + 1) * SECOND + _C, MELS // 2 * _C)
    copied(t.frames1, 2 * SECOND, state.conv2[row], 0, SECOND)
    product(
        t.frames1, 0, 2 * _C, 3, SECOND, 3 * _C, w.conv2.weight, w.conv2.bias, t.sums2, FREQUENCIES
    )
    rectified(t.sums2, t.frames2, _C, FREQUENCIES * _C)


@numba.njit(nogil=True, fastmath=FAST, error_model="numpy")
def _squash(gates: Array, cell: Array, hidden: Array) -> None:
    """Advance a convolutional LSTM: gates (F 4 C,) in the order i, f, o, g; cell (F C,)."""
    for f in range(FREQUENCIES):
        gate, memory = gates[4 * f * _C : 4 * (f + 1) * _C], cell[f * _C : (f + 1) * _C]
        out = hidden[(f + 1) * _C : (f + 2) * _C]
        for c in range(_C):
            value = sigmoid(gate[_C + c]) * memory[c] + sigmoid(gate[c]) * tanh(gate[3 * _C + c])
            memory[c] = value
            put(out, c, sigmoid(gate[2 * _C + c]) * tanh(value))


@numba.njit(nogil=True)
def convolve(r: int, row: int, out: int, state: State, w: Convolutions, t: Scratch) -> None:
    """Set `t.joined[out]` to a stream's input of the recurrent layers, from `t.planes[r]`."""
    _twice_halved(r, row, state, w, t)
    past = state.hidden[row]
    copied(past, THIRD, t.frames2, THIRD, THIRD)
    product(
        t.frames2,
        0,
        _C,
        2,
        THIRD,
        3 * _C,
        w.conv_lstm.weight,
        w.conv_lstm.bias,
        t.gates2,
        FREQUENCIES,
    )
    copied(past, 0, t.frames3, 0, 2 * THIRD)
    _squash(t.gates2, state.cell[row], t.frames3[2 * THIRD :])
    copied(t.frames3, THIRD, past, 0, 2 * THIRD)
    product(t.frames3, 0, _C, 3, THIRD, 3 * _C, w.conv3.weight, w.conv3.bias, t.sums2, FREQUENCIES)
    rectified(t.sums2, t.convolved[out], 0, _INPUTS)


@numba.njit(nogil=True, fastmath=FAST, error_model="numpy")
def _advance(gates: Array, cell: Array, hidden: Array, kept: Array) -> None:
    """Advance a stream's LSTM: gates (4 H,) in the order i, f, g, o."""
    width = len(cell)
    i, forget, g, o = (
        gates[:width],
        gates[width : 2 * width],
        gates[2 * width : 3 * width],
        gates[3 * width : 4 * width],
    )
    for k in range(width):
        value = sigmoid(forget[k]) * cell[k] + sigmoid(i[k]) * tanh(g[k])
        cell[k] = value
        put(hidden, k, sigmoid(o[k]) * tanh(value))
    copied(hidden, 0, kept, 0, width)


@numba.njit(nogil=True)
def recur(number: int, rows: Array, state: State, layer: Layer, t: Scratch) -> None:
    """Take a tile through a recurrent layer; `t.joined` begins with its inputs, then outputs."""
    width, count = state.lstm_cell.shape[2], len(rows)
    stride = len(t.joined) // TILE
    inputs = _INPUTS if number == 0 else width
    for r in range(count):
        at = r * stride
        if number == 0:
            copied(t.convolved[r], 0, t.joined, at, _INPUTS)
        copied(state.lstm_hidden[rows[r], number], 0, t.joined, at + inputs, width)
    k = inputs + width
    product(t.joined, 0, stride, 1, 0, k, layer.lstm.weight, layer.lstm.bias, t.gates, count)
    for r in range(count):
        cell, kept = state.lstm_cell[rows[r], number], state.lstm_hidden[rows[r], number]
        hidden = t.hidden[r * width : (r + 1) * width]
        _advance(t.gates[4 * r * width : 4 * (r + 1) * width], cell, hidden, kept)
    product(t.hidden, 0, width, 1, 0, width, layer.dense.weight, layer.dense.bias, t.dense, count)
    for r in range(count):
        rectified(t.dense[r * width : (r + 1) * width], t.joined, r * stride, width)
