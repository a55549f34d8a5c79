"""Matrix products whose rows do not feel each other, over blocks that fit into the registers."""

from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

from model.fast.vectors import BLOCKS, COLUMNS, LANES, NARROW, VECTORS, narrowed, product_tile

Array = NDArray[Any]

_LARGE, _SMALL = BLOCKS[0], BLOCKS[-2]
_large, _small, _single = (product_tile(rows, VECTORS, LANES) for rows in (_LARGE, _SMALL, 1))


@numba.njit(nogil=True)
def product(
    a: Array,
    start: int,
    row: int,
    segments: int,
    segment: int,
    k: int,
    b: Array,
    bias: Array,
    c: Array,
    rows: int,
) -> None:
    """Set C (rows, N) to bias + A B; all arrays are flat.

    Args:
        a: bf16 or float32.
        start: offset of A's first element in it.
        row: elements from a row of A to the next; they may overlap, as a convolution's do.
        segments: a row of A is as many runs of k elements,
        segment: as many elements apart.
        k: even.
        b: `packed`, (segments * k, N).
        bias: (N,) float32.
        c: float32.
        rows: how many.
    """
    n = len(bias)
    size = COLUMNS * segments * k
    for panel in range(n // COLUMNS):
        p, column = panel * size, panel * COLUMNS
        m = 0
        while m + _LARGE <= rows:
            _large(
                a,
                start + m * row,
                row,
                segments,
                segment,
                k,
                b,
                p,
                bias,
                column,
                c,
                m * n + column,
                n,
            )
            m += _LARGE
        while m + _SMALL <= rows:
            _small(
                a,
                start + m * row,
                row,
                segments,
                segment,
                k,
                b,
                p,
                bias,
                column,
                c,
                m * n + column,
                n,
            )
            m += _SMALL
        while m < rows:
            _single(
                a,
                start + m * row,
                row,
                segments,
                segment,
                k,
                b,
                p,
                bias,
                column,
                c,
                m * n + column,
                n,
            )
            m += 1


def packed(matrix: NDArray[np.floating[Any]], kind: type) -> Array:
    """Return a (K, N) matrix as `product` reads it, N padded with zero columns to whole panels.

    Panels of COLUMNS columns follow each other; bf16 lies in pairs along K.
    """
    k, n = matrix.shape
    padded = np.zeros((k, n + -n % COLUMNS), np.float32)
    padded[:, :n] = matrix
    panels = padded.reshape(k, -1, COLUMNS).transpose(1, 0, 2)
    if kind is not NARROW:
        return np.ascontiguousarray(panels).ravel()
    pairs = panels.reshape(len(panels), k // 2, 2, COLUMNS).transpose(0, 1, 3, 2)
    return narrow(np.ascontiguousarray(pairs)).ravel()


def padded(vector: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """Return a bias of (N,) with zeros up to whole panels."""
    return np.pad(vector, (0, -len(vector) % COLUMNS)).astype(np.float32)


def narrow(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Return float32 as bf16, rounded to the nearest, ties to even."""
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


@numba.njit(nogil=True)
def copied(source: Array, start: int, target: Array, to: int, count: int) -> None:
    """Copy numbers of a flat array into another; a slice would be compiled for longer."""
    for k in range(count):
        target[to + k] = source[start + k]


def put(array: Any, index: Any, value: Any) -> Any:
    """Store a float32 in an element of an array of bf16 or float32, in compiled code."""
    raise NotImplementedError("expected to be compiled")


@overload(put, inline="always")
def _put(array, index, value):  # type: ignore[no-untyped-def]
    if array.dtype == types.uint16:

        def into_narrow(array, index, value):  # type: ignore[no-untyped-def]
            array[index] = narrowed(value)

        return into_narrow

    def into_wide(array, index, value):  # type: ignore[no-untyped-def]
        array[index] = value

    return into_wide
