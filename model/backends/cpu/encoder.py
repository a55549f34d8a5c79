"""The encoder of a tile of streams, compiled: convolutions stream by stream, layers together."""

import numpy as np

from cortado.model.arrays import Array
from cortado.model.backends.cpu.convolution import convolve_frames
from cortado.model.backends.cpu.gates import advance_cell
from cortado.model.backends.cpu.layout import (
    CHANNELS,
    FIRST,
    ROWS1,
    ROWS2,
    ROWS3,
    SECOND,
    STREAMS,
    THIRD,
    TILE,
    Convolutions,
    Layer,
    Scratch,
    State,
)
from cortado.model.compiled.functions import FAST
from cortado.model.compiled.integers import affine
from cortado.model.compiled.jit import uncounted
from cortado.model.compiled.product import copied, product, put
from cortado.model.compiled.vectors import LANES
from cortado.model.features.framing import FREQUENCIES, MELS, PLANES

_ZERO = np.float32(0)
_INPUTS = FREQUENCIES * CHANNELS  # of the first recurrent layer
_C = CHANNELS


@uncounted(fastmath=FAST, error_model="numpy", forceinline=True)
def relu(sums: Array, start: int, out: Array, out_start: int, count: int) -> None:
    """Store max(0, x) of a part of a flat float32 array in another array."""
    source, target = sums[start : start + count], out[out_start : out_start + count]
    for k in range(count):
        put(target, k, max(source[k], _ZERO))


@uncounted()
def _first_two_convolutions(rows: Array, state: State, w: Convolutions, t: Scratch) -> None:
    """Set `t.frames2[0]` to the streams' frames after the first two convolutions."""
    step, count, half = PLANES + 1, len(rows), MELS // 2
    for r in range(count):
        copied(state.conv2[rows[r]], 0, t.frames1, r * SECOND + _C, half * _C)
    for frame in range(2):
        product(
            t.planes,
            2 * frame * STREAMS * FIRST,
            2 * step,
            3,
            STREAMS * FIRST,
            3 * step,
            w.conv1.weight,
            w.conv1.bias,
            t.sums1,
            count * ROWS1,
        )
        for r in range(count):
            to = ((frame + 1) * STREAMS + r) * SECOND + _C
            relu(t.sums1, r * ROWS1 * _C, t.frames1, to, half * _C)
    for r in range(count):
        copied(t.frames1, (2 * STREAMS + r) * SECOND + _C, state.conv2[rows[r]], 0, half * _C)
    convolve_frames(w.conv2, t.frames1, SECOND, 2, t.sums2, count, t.codes1, t.row_scales)
    for r in range(count):
        relu(t.sums2, r * ROWS2 * _C, t.frames2, r * THIRD + _C, FREQUENCIES * _C)


@uncounted()
def _conv_lstm_cell(gates: Array, start: int, cell: Array, hidden: Array, to: int) -> None:
    """Advance a convolutional LSTM: gates (F 4 C,) in the order i, f, o, g; cell (F C,)."""
    for f in range(FREQUENCIES):
        for c in range(0, _C, LANES):
            at = start + 4 * f * _C + c
            advance_cell(gates, at, at + _C, at + 3 * _C, at + 2 * _C, cell, f * _C + c, hidden, to)
            to += LANES


@uncounted()
def convolve(rows: Array, out: int, state: State, w: Convolutions, t: Scratch) -> None:
    """Set `t.joined` from row `out` on to STREAMS streams' inputs of the recurrent layers.

    Frames of several streams lie side by side and are convolved at once, the rows between two
    streams too: what these give is not used.
    """
    count, stride = len(rows), len(t.joined) // TILE
    _first_two_convolutions(rows, state, w, t)
    for r in range(count):
        past = state.hidden[rows[r]]
        copied(past, _INPUTS, t.frames2, (STREAMS + r) * THIRD + _C, _INPUTS)
        copied(past, 0, t.frames3, r * THIRD + _C, _INPUTS)
        copied(past, _INPUTS, t.frames3, (STREAMS + r) * THIRD + _C, _INPUTS)
        copied(past, _INPUTS, past, 0, _INPUTS)
    convolve_frames(w.conv_lstm, t.frames2, THIRD, 1, t.gates2, count, t.codes2, t.row_scales)
    for r in range(count):
        to = (2 * STREAMS + r) * THIRD + _C
        _conv_lstm_cell(t.gates2, 4 * r * ROWS3 * _C, state.cell[rows[r]], t.frames3, to)
        copied(t.frames3, to, state.hidden[rows[r]], _INPUTS, _INPUTS)
    convolve_frames(w.conv3, t.frames3, THIRD, 1, t.sums2, count, t.codes3, t.row_scales)
    for r in range(count):
        relu(t.sums2, r * ROWS3 * _C, t.joined, (out + r) * stride, _INPUTS)


@uncounted()
def lstm_cell(
    gates: Array, start: int, cell: Array, hidden: Array, out_start: int, state: Array
) -> None:
    """Advance a stream's LSTM: gates (4 H,) from `start` on, in the order i, f, g, o.

    The new hidden state goes to `hidden`, from `out_start` on, and to `state`.
    """
    width = len(cell)
    for k in range(0, width, LANES):
        i = start + k
        f, g, o = i + width, i + 2 * width, i + 3 * width
        advance_cell(gates, i, f, g, o, cell, k, hidden, out_start + k)
    copied(hidden, out_start, state, 0, width)


@uncounted()
def recur(number: int, rows: Array, state: State, layer: Layer, t: Scratch) -> None:
    """Take a tile through a recurrent layer; `t.joined` begins with its inputs, then outputs."""
    width, count = state.lstm_cell.shape[2], len(rows)
    stride = len(t.joined) // TILE
    inputs = _INPUTS if number == 0 else width
    for r in range(count):
        at = r * stride
        copied(state.lstm_hidden[rows[r], number], 0, t.joined, at + inputs, width)
    k = inputs + width
    affine(layer.lstm, t.joined, stride, k, t.gates, count, t.codes, t.scales)
    for r in range(count):
        cell, hidden = state.lstm_cell[rows[r], number], state.lstm_hidden[rows[r], number]
        lstm_cell(t.gates, 4 * r * width, cell, t.hidden, r * width, hidden)
    affine(layer.dense, t.hidden, width, width, t.dense, count, t.codes, t.scales)
    for r in range(count):
        relu(t.dense, r * width, t.joined, r * stride, width)
