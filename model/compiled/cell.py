"""The LSTM cell as compiled loops, forward and backward, for one stream and one frame."""

from cortado.model.arrays import Array
from cortado.model.compiled.functions import FAST, sigmoid, tanh
from cortado.model.compiled.jit import uncounted
from cortado.model.compiled.product import put


@uncounted(fastmath=FAST, error_model="numpy", forceinline=True)
def forward_cell(
    i: Array, f: Array, g: Array, o: Array, previous: Array, cell: Array, hidden: Array
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
        cell[k] = f[k] * previous[k] + i[k] * g[k]
    for k in range(width):
        put(hidden, k, o[k] * tanh(cell[k]))


@uncounted(fastmath=FAST, error_model="numpy", forceinline=True)
def backward_cell(
    grad_hidden: Array,
    i: Array,
    f: Array,
    g: Array,
    o: Array,
    previous: Array,
    cell: Array,
    grad_cell: Array,
    grad_i: Array,
    grad_f: Array,
    grad_g: Array,
    grad_o: Array,
) -> None:
    """Set the gradients in the gates before their nonlinearities, and update `grad_cell`.

    Args:
        grad_hidden: in the hidden state.
        i: gates, after their nonlinearities: `i`, `f`, `g`, `o`.
        f: see `i`.
        g: see `i`.
        o: see `i`.
        previous: the previous cell.
        cell: the cell.
        grad_cell: gradient in the cell, changed to that in the previous one.
        grad_i: gradients in the gates, bf16 or float32: `grad_i`, `grad_f`, `grad_g`, `grad_o`.
        grad_f: see `grad_i`.
        grad_g: see `grad_i`.
        grad_o: see `grad_i`.
    """
    for k in range(len(cell)):
        squashed = tanh(cell[k])
        d = grad_cell[k] + grad_hidden[k] * o[k] * (1 - squashed * squashed)
        put(grad_i, k, d * g[k] * i[k] * (1 - i[k]))
        put(grad_f, k, d * previous[k] * f[k] * (1 - f[k]))
        put(grad_g, k, d * i[k] * (1 - g[k] * g[k]))
        put(grad_o, k, grad_hidden[k] * squashed * o[k] * (1 - o[k]))
        grad_cell[k] = d * f[k]


@uncounted(fastmath=FAST, error_model="numpy", forceinline=True)
def add_to(values: Array, total: Array) -> None:
    """Add an array to another."""
    for k in range(len(total)):
        total[k] += values[k]
