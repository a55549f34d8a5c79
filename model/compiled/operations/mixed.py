"""What the compiled recurrences multiply with while a model learns.

Products are those that serve (`model.compiled.product`): under autocast in bf16 where the CPU
multiplies it, else in fp32. Sums, cells and gates stay in float32.
"""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cortado.model.arrays import Array
from cortado.model.compiled.product import (
    WEIGHT_TYPES,
    aligned,
    available,
    input_type,
    packed,
    padded,
)
from cortado.model.compiled.tiles import INNER, ROWS
from cortado.model.compiled.vectors import BF16


def kind() -> Any:
    """Return what matrices are packed in, in the `WEIGHT_TYPES` of products."""
    return WEIGHT_TYPES[available()[0]] if torch.is_autocast_enabled("cpu") else np.float32


def even(width: int) -> int:
    """Return the width of rows, which products read in pairs."""
    return width + width % 2


def matrix(weight: Tensor, kind: Any) -> tuple[Array, Array]:
    """Return a (K, N) matrix as products read it, K made even, and a bias of zeros."""
    k, n = weight.shape
    weight = weight.detach()
    numbers = weight.numpy()
    if input_type(kind) is BF16:
        numbers = weight.bfloat16().view(torch.uint16).numpy()
    numbers = np.pad(numbers, ((0, even(k) - k), (0, 0)))
    return packed(numbers, kind), padded(np.zeros(n, np.float32))


def factors(kind: Any, *shape: int) -> Array:
    """Return room for (T, ..., K) numbers that products read, the first frame's zero.

    Tiles read beyond the last row, and beyond K where it is no multiple of theirs: what lies there
    is multiplied by zero, and has to be a number.
    """
    spare = ROWS * (shape[-1] + INNER)
    whole = aligned(input_type(kind), math.prod(shape) + spare, filled=bool(shape[-1] % INNER))
    whole[len(whole) - spare :] = 0
    found = whole[: len(whole) - spare].reshape(shape)
    found[:1] = 0
    return found


def sums(rows: int, bias: Array) -> Array:
    """Return room for a product of so many rows, and for a tile's beyond."""
    return aligned(np.float32, (rows + ROWS) * len(bias))


def numbers(x: Tensor, own: bool = False) -> Array:
    """Return what a tensor holds as contiguous float32; where it may be changed, one's own."""
    return x.detach().to(torch.float32, copy=own).contiguous().numpy()


def tensor(array: Array) -> Tensor:
    """Return a tensor of what lies in an array, bf16 or float32."""
    found = torch.from_numpy(array)
    return found.view(torch.bfloat16) if array.dtype == BF16 else found
