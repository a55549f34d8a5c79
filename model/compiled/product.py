"""Matrix products on a CPU's vector registers or AMX tiles; a row's result depends on it alone.

The type that B is packed in decides: BF16_PAIRS use tiles, BF16 and float32 use registers.
"""

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

from cortado.model.arrays import Array
from cortado.model.compiled.jit import uncounted
from cortado.model.compiled.tiles import (
    BF16_PAIRS,
    INNER,
    ROWS,
    configure,
    has_tiles,
    product_block,
    release,
)
from cortado.model.compiled.vectors import (
    BF16,
    BLOCKS,
    COLUMNS,
    LANES,
    VECTORS,
    float_of,
    has_bf16_products,
    narrowed,
    product_tile,
)

# the type of packed weights, by name
WEIGHT_TYPES = {"amx": BF16_PAIRS, "bf16": BF16, "fp32": np.float32}
CACHE_LINE = 64  # bytes, which tiles and registers load at once

LARGE, SMALL = BLOCKS
_large, _small, _single = (product_tile(rows, VECTORS, LANES) for rows in (LARGE, SMALL, 1))
_tall, _flat = product_block(2), product_block(1)


def available() -> tuple[str, ...]:
    """Return the names of the products that this CPU supports, the fastest first."""
    has = {"amx": has_tiles(), "bf16": has_bf16_products(), "fp32": True}
    return tuple(name for name, is_there in has.items() if is_there)


def input_type(kind: Any) -> Any:
    """Return the type of A for weights packed in `kind`: BF16 (bf16) or float32."""
    return BF16 if kind is BF16_PAIRS else kind


def aligned(kind: Any, *shape: int, filled: bool = True) -> Array:
    """Return zeros aligned to a cache line; uninitialised if not `filled`."""
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    whole = (np.zeros if filled else np.empty)(size + CACHE_LINE, np.uint8)
    start = -whole.ctypes.data % CACHE_LINE
    return whole[start : start + size].view(kind).reshape(shape)


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
    """Set C (rows, N) to bias + A B, in compiled code; all arrays are flat.

    With tiles, whole ones are read and written: A needs finite numbers in each row up to a
    multiple of INNER, and A and C need room up to a multiple of ROWS rows.

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
    raise NotImplementedError("expected to be compiled")


@overload(product)
def _product(a, start, row, segments, segment, k, b, bias, c, rows):  # type: ignore[no-untyped-def]
    return _by_tiles if b.dtype == types.uint32 else _by_registers


def _by_tiles(a, start, row, segments, segment, k, b, bias, c, rows):  # type: ignore[no-untyped-def]
    n, steps = len(bias), -(-k // INNER)
    size = COLUMNS * segments * steps * INNER // 2
    for panel in range(n // COLUMNS):
        p, column = panel * size, panel * COLUMNS
        m = 0
        while m < rows:
            at, to = start + m * row, m * n + column
            if m + ROWS < rows:
                _tall(a, at, row, segments, segment, steps, b, p, bias, column, c, to, n)
            else:
                _flat(a, at, row, segments, segment, steps, b, p, bias, column, c, to, n)
            m += 2 * ROWS


def _by_registers(a, start, row, segments, segment, k, b, bias, c, rows):  # type: ignore[no-untyped-def]
    n = len(bias)
    size = COLUMNS * segments * k
    for panel in range(n // COLUMNS):
        p, column = panel * size, panel * COLUMNS
        m = 0
        while m < rows:
            m, height = block_at(m, rows)
            at, to = start + m * row, m * n + column
            if height == LARGE:
                _large(a, at, row, segments, segment, k, b, p, bias, column, c, to, n)
            elif height == SMALL:
                _small(a, at, row, segments, segment, k, b, p, bias, column, c, to, n)
            else:
                _single(a, at, row, segments, segment, k, b, p, bias, column, c, to, n)
            m += height


@uncounted()
def block_at(m: int, rows: int) -> tuple[int, int]:
    """Return where the next block of rows begins, and how many it has, once `m` are done.

    The last block may overlap the one before: computing rows twice is faster than one by one.
    """
    if m + LARGE <= rows:
        return m, LARGE
    if m + 1 == rows or rows < SMALL:
        return m, 1
    return min(m, rows - SMALL), SMALL


def begin(b: Array) -> None:
    """Prepare the running thread for products with weights packed like `b`."""
    raise NotImplementedError("expected to be compiled")


def end(b: Array) -> None:
    """Undo `begin`."""
    raise NotImplementedError("expected to be compiled")


@overload(begin)
def _begin(b):  # type: ignore[no-untyped-def]
    return (lambda b: configure()) if b.dtype == types.uint32 else lambda b: None


@overload(end)
def _end(b):  # type: ignore[no-untyped-def]
    return (lambda b: release()) if b.dtype == types.uint32 else lambda b: None


def packed(matrix: Array, kind: Any, segments: int = 1) -> Array:
    """Return a (K, N) matrix as `product` reads it, N padded with zero columns to whole panels.

    The matrix has any floats, or bf16 as uint16.

    Panels of COLUMNS columns follow each other; bf16 lies in pairs along K. For tiles, each segment
    of K is padded with zero rows to a multiple of INNER.
    """
    k, n = matrix.shape
    missing = -(k // segments) % INNER if kind is BF16_PAIRS else 0
    if kind is not np.float32 and matrix.dtype != BF16:
        matrix = narrow(matrix.astype(np.float32))
    runs = matrix.reshape(segments, k // segments, n)
    padded = np.pad(runs, ((0, 0), (0, missing), (0, -n % COLUMNS)))
    panels = padded.reshape(-1, padded.shape[2] // COLUMNS, COLUMNS).transpose(1, 0, 2)
    if kind is np.float32:
        return _placed(panels.astype(np.float32))
    return _placed(panels.reshape(len(panels), -1, 2, COLUMNS).transpose(0, 1, 3, 2)).view(kind)


def _placed(numbers: Array) -> Array:
    found = aligned(numbers.dtype, numbers.size)
    found[:] = numbers.ravel()
    return found


def padded(vector: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """Return a bias of (N,) with zeros up to whole panels."""
    return _placed(np.pad(vector, (0, -len(vector) % COLUMNS)).astype(np.float32))


def narrow(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Return float32 as bf16, rounded to the nearest, ties to even."""
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


@uncounted()
def copied(source: Array, start: int, target: Array, to: int, count: int) -> None:
    """Copy numbers of a flat array into another."""
    given, taken = source[start : start + count], target[to : to + count]
    for k in range(count):  # of views that begin at 0, else it is not vectorised
        taken[k] = given[k]


@uncounted()
def stored(source: Array, start: int, target: Array) -> None:
    """Fill a flat array of bf16 or float32 with float32 from another."""
    given = source[start : start + len(target)]
    for k in range(len(target)):
        put(target, k, given[k])


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


def wide(array: Any, index: Any) -> Any:
    """Return an element of an array of bf16 or float32 as float32, in compiled code."""
    raise NotImplementedError("expected to be compiled")


@overload(wide, inline="always")
def _wide(array, index):  # type: ignore[no-untyped-def]
    if array.dtype == types.uint16:
        return lambda array, index: float_of(np.int32(np.int32(array[index]) << np.int32(16)))
    return lambda array, index: array[index]
