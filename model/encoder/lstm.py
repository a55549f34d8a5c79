"""An LSTM over whole utterances on a CPU, for training in mixed precision.

What a frame gives to the gates is one product for all frames. The recurrence, forth and back, is
one compiled loop each. oneDNN's layer, which torch has, takes longer, most of it on its way back.
"""

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import linear

from cortado.model.compiled import mixed
from cortado.model.compiled.functions import FAST, sigmoid, tanh
from cortado.model.compiled.product import begin, end, product, put

Array = NDArray[Any]


def hidden_states(x: Tensor, weights: Sequence[Tensor], training: bool = True) -> Tensor:
    """Return the (B, T, H) hidden states of a layer over (B, T, H_in) from zeros.

    Under autocast on a CPU by the compiled recurrence, otherwise by torch's.

    Args:
        x: what it hears.
        weights: of inputs (4 H, H_in) and hidden states (4 H, H), and two biases (4 H,).
        training: whether a gradient may be wanted.
    """
    w_inputs, w_hidden, one, other = weights
    if x.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
        inputs = linear(x.transpose(0, 1), w_inputs, one + other)
        states: Tensor = Recurrence.apply(inputs, w_hidden)  # type: ignore[no-untyped-call]
        return states.transpose(0, 1)
    zeros = x.new_zeros(1, len(x), w_hidden.shape[1])
    return torch.lstm(x, [zeros, zeros], list(weights), True, 1, 0.0, training, False, True)[0]


class Recurrence(torch.autograd.Function):
    """The hidden states of an LSTM whose gates are inputs + W hidden, in torch's order i, f, g, o.

    Inputs are (T, B, 4 H), W is (4 H, H). Returned are (T, B, H), bf16 or float32 as products are.
    """

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor) -> Tensor:
        frames, batch, width = len(inputs), inputs.shape[1], weight.shape[1]
        kind = mixed.kind()
        matrix, nothing = mixed.matrix(weight.t(), kind)
        hidden = mixed.factors(kind, frames + 1, batch, mixed.even(width))
        cells = mixed.floats(frames + 1, batch, width)
        gates = mixed.numbers(inputs, True)
        _forth(gates, hidden, cells, matrix, nothing, mixed.sums(batch, nothing))
        ctx.save_for_backward(weight)
        ctx.kept = kind, gates, hidden, cells
        return mixed.tensor(hidden)[1:, :, :width]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        (weight,), (kind, gates, hidden, cells) = ctx.saved_tensors, ctx.kept
        matrix, nothing = mixed.matrix(weight, kind)
        of_gates = mixed.factors(kind, *gates.shape)
        room = mixed.sums(gates.shape[1], nothing)
        _back(mixed.numbers(grads[0]), gates, cells, of_gates, matrix, nothing, room)
        found, before = mixed.tensor(of_gates), mixed.tensor(hidden)[:-1, :, : weight.shape[1]]
        return found, (found.flatten(0, 1).t() @ before.flatten(0, 1)).float()


@numba.njit(nogil=True, fastmath=FAST, error_model="numpy", forceinline=True)
def _advance(gate: Array, sums: Array, before: Array, cell: Array, hidden: Array) -> None:
    """Squash the gates (4 H,) of a stream and of a frame, and store what they make."""
    width = len(cell)
    for k in range(4 * width):
        gate[k] += sums[k]
    i, f, g, o = (
        gate[:width],
        gate[width : 2 * width],
        gate[2 * width : 3 * width],
        gate[3 * width :],
    )
    for k in range(width):
        i[k] = sigmoid(i[k])
    for k in range(width):
        f[k] = sigmoid(f[k])
    for k in range(width):
        g[k] = tanh(g[k])
    for k in range(width):
        o[k] = sigmoid(o[k])
    for k in range(width):
        cell[k] = f[k] * before[k] + i[k] * g[k]
    for k in range(width):
        put(hidden, k, o[k] * tanh(cell[k]))


@numba.njit(cache=True, nogil=True)
def _forth(
    gates: Array, hidden: Array, cells: Array, matrix: Array, nothing: Array, sums: Array
) -> None:
    """Set the hidden states and cells of all frames, and the gates to what they are squashed to."""
    frames, batch, size = gates.shape
    k, n, flat = hidden.shape[2], len(nothing), hidden.ravel()
    begin(matrix)
    for t in range(frames):
        product(flat, t * batch * k, k, 1, 0, k, matrix, nothing, sums, batch)
        for b in range(batch):
            own = sums[b * n : b * n + size]
            _advance(gates[t, b], own, cells[t, b], cells[t + 1, b], hidden[t + 1, b])
    end(matrix)


@numba.njit(nogil=True, fastmath=FAST, error_model="numpy", forceinline=True)
def _retreat(
    grad: Array, later: Array, gate: Array, before: Array, cell: Array, carried: Array, out: Array
) -> None:
    """Store the gradient in a frame's gates, from those in its hidden state and its cell."""
    width = len(cell)
    i, f, g, o = (
        gate[:width],
        gate[width : 2 * width],
        gate[2 * width : 3 * width],
        gate[3 * width :],
    )
    of_i, of_f, of_g = out[:width], out[width : 2 * width], out[2 * width : 3 * width]
    of_o = out[3 * width :]
    for k in range(width):
        squashed, total = tanh(cell[k]), grad[k] + later[k]
        d = carried[k] + total * o[k] * (1 - squashed * squashed)
        put(of_i, k, d * g[k] * i[k] * (1 - i[k]))
        put(of_f, k, d * before[k] * f[k] * (1 - f[k]))
        put(of_g, k, d * i[k] * (1 - g[k] * g[k]))
        put(of_o, k, total * squashed * o[k] * (1 - o[k]))
        carried[k] = d * f[k]


@numba.njit(cache=True, nogil=True)
def _back(
    grads: Array,
    gates: Array,
    cells: Array,
    of_gates: Array,
    matrix: Array,
    nothing: Array,
    later: Array,
) -> None:
    """Set the gradients in the gates of all frames, before they were squashed."""
    frames, batch, size = gates.shape
    width, n, flat = cells.shape[2], len(nothing), of_gates.ravel()
    carried = np.zeros((batch, width), np.float32)
    begin(matrix)
    for t in range(frames - 1, -1, -1):
        for b in range(batch):
            own, cell = later[b * n : b * n + width], cells[t + 1, b]
            _retreat(grads[t, b], own, gates[t, b], cells[t, b], cell, carried[b], of_gates[t, b])
        product(flat, t * batch * size, size, 1, 0, size, matrix, nothing, later, batch)
    end(matrix)
