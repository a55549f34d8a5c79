"""The LSTM cell as compiled loops, forward and backward, for one stream and one frame."""

from typing import Any

import numba
from numpy.typing import NDArray

from cortado.model.compiled.functions import FAST, sigmoid, tanh
from cortado.model.compiled.product import put

Array = NDArray[Any]


@numba.njit(nogil=True, fastmath=FAST, error_model="numpy", forceinline=True)
def advance(
    i: Array, f: Array, g: Array, o: Array, before: Array, cell: Array, hidden: Array
) -> None:
    """Squash the gates in place; set the cell and the hidden state, bf16 or float32."""
    width = len(cell)
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


@numba.njit(nogil=True, fastmath=FAST, error_model="numpy", forceinline=True)
def retreat(
    grad: Array,
    i: Array,
    f: Array,
    g: Array,
    o: Array,
    before: Array,
    cell: Array,
    carried: Array,
    of_i: Array,
    of_f: Array,
    of_g: Array,
    of_o: Array,
) -> None:
    """Set the gradients in the gates before squashing; `carried` goes from cell to cell before.

    Args:
        grad: in the hidden state.
        i: gates, squashed: `i`, `f`, `g`, `o`.
        f: see `i`.
        g: see `i`.
        o: see `i`.
        before: the cell before.
        cell: the cell.
        carried: gradient in the cell, then in the one before.
        of_i: where those in the gates go, bf16 or float32: `of_i`, `of_f`, `of_g`, `of_o`.
        of_f: see `of_i`.
        of_g: see `of_i`.
        of_o: see `of_i`.
    """
    for k in range(len(cell)):
        squashed = tanh(cell[k])
        d = carried[k] + grad[k] * o[k] * (1 - squashed * squashed)
        put(of_i, k, d * g[k] * i[k] * (1 - i[k]))
        put(of_f, k, d * before[k] * f[k] * (1 - f[k]))
        put(of_g, k, d * i[k] * (1 - g[k] * g[k]))
        put(of_o, k, grad[k] * squashed * o[k] * (1 - o[k]))
        carried[k] = d * f[k]


@numba.njit(nogil=True, fastmath=FAST, error_model="numpy", forceinline=True)
def added(given: Array, total: Array) -> None:
    """Add an array to another."""
    for k in range(len(total)):
        total[k] += given[k]
