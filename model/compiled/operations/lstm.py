"""The LSTM on a CPU in mixed precision, for training.

What a frame gives to the gates is one product for all frames. The recurrence, forth and back, is
one compiled loop each. oneDNN's layer, which torch has, takes longer, most of it on its way back.
"""

from collections.abc import Sequence
from typing import Any

import numba
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import linear

from cortado.model.compiled.cell import added, advance, retreat
from cortado.model.compiled.operations import mixed
from cortado.model.compiled.product import begin, end, product
from cortado.model.operation import definition, kernel

Array = NDArray[Any]


@kernel("lstm", "CPU")
def lstm(
    x: Tensor, hidden: Tensor, cell: Tensor, weights: Sequence[Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what `encoder.lstm` defines; in full precision by torch's layer."""
    if not torch.is_autocast_enabled("cpu"):
        return definition("lstm")(x, hidden, cell, weights)
    w_inputs, w_hidden, one, other = weights
    inputs = linear(x.transpose(0, 1), w_inputs, one + other)
    states, last = Recurrence.apply(inputs, w_hidden, hidden, cell)  # type: ignore[no-untyped-call]
    return states.transpose(0, 1), states[-1].float(), last


class Recurrence(torch.autograd.Function):
    """The hidden states of an LSTM whose gates are inputs + W hidden, in torch's order i, f, g, o.

    Inputs are (T, B, 4 H), W is (4 H, H), the state before them is (B, H). Returned are (T, B, H),
    bf16 or float32 as products are, and the last cell.
    """

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, weight: Tensor, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor]:
        frames, batch, width = len(inputs), inputs.shape[1], weight.shape[1]
        kind = mixed.kind()
        matrix, nothing = mixed.matrix(weight.t(), kind)
        states = mixed.factors(kind, frames + 1, batch, mixed.even(width))
        mixed.tensor(states)[0, :, :width] = hidden.detach()
        cells = mixed.floats(frames + 1, batch, width)
        cells[0] = mixed.numbers(cell)
        gates = mixed.numbers(inputs, True)
        _forth(gates, states, cells, matrix, nothing, mixed.sums(batch, nothing))
        ctx.save_for_backward(weight)
        ctx.kept = kind, gates, states, cells
        return mixed.tensor(states)[1:, :, :width], torch.from_numpy(cells[-1])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        (weight,), (kind, gates, states, cells) = ctx.saved_tensors, ctx.kept
        width = weight.shape[1]
        matrix, nothing = mixed.matrix(weight, kind)
        of_gates, carried = mixed.factors(kind, *gates.shape), mixed.numbers(grads[1], True)
        later = mixed.sums(gates.shape[1], nothing)
        _back(mixed.numbers(grads[0]), gates, cells, of_gates, matrix, nothing, later, carried)
        found, before = mixed.tensor(of_gates), mixed.tensor(states)[:-1, :, :width]
        of_weight = (found.flatten(0, 1).t() @ before.flatten(0, 1)).float()
        of_hidden = later[: len(carried) * len(nothing)].reshape(len(carried), -1)[:, :width]
        return found, of_weight, torch.from_numpy(of_hidden), torch.from_numpy(carried)


@numba.njit(cache=True, nogil=True)
def _forth(
    gates: Array, hidden: Array, cells: Array, matrix: Array, nothing: Array, sums: Array
) -> None:
    """Set the hidden states and cells of all frames, and the gates to what they are squashed to."""
    frames, batch, size = gates.shape
    k, n, flat = hidden.shape[2], len(nothing), hidden.ravel()
    h = size // 4
    begin(matrix)
    for t in range(frames):
        product(flat, t * batch * k, k, 1, 0, k, matrix, nothing, sums, batch)
        for b in range(batch):
            gate, cell = gates[t, b], cells[t + 1, b]
            added(sums[b * n : b * n + size], gate)
            i, f, g, o = gate[:h], gate[h : 2 * h], gate[2 * h : 3 * h], gate[3 * h :]
            advance(i, f, g, o, cells[t, b], cell, hidden[t + 1, b])
    end(matrix)


@numba.njit(cache=True, nogil=True)
def _back(
    grads: Array,
    gates: Array,
    cells: Array,
    of_gates: Array,
    matrix: Array,
    nothing: Array,
    later: Array,
    carried: Array,
) -> None:
    """Set the gradients in the gates of all frames, before they were squashed.

    In the end `later` holds that in the hidden state before them, and `carried` that in the cell.
    """
    frames, batch, size = gates.shape
    h, n, flat = size // 4, len(nothing), of_gates.ravel()
    begin(matrix)
    for t in range(frames - 1, -1, -1):
        for b in range(batch):
            total, gate, out = later[b * n : b * n + h], gates[t, b], of_gates[t, b]
            added(grads[t, b], total)
            i, f, g, o = gate[:h], gate[h : 2 * h], gate[2 * h : 3 * h], gate[3 * h :]
            of_i, of_f, of_g = out[:h], out[h : 2 * h], out[2 * h : 3 * h]
            before, cell, of_o = cells[t, b], cells[t + 1, b], out[3 * h :]
            retreat(total, i, f, g, o, before, cell, carried[b], of_i, of_f, of_g, of_o)
        product(flat, t * batch * size, size, 1, 0, size, matrix, nothing, later, batch)
    end(matrix)
