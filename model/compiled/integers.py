"""Products of 8-bit integers, for all layers but the first: nearly twice as fast as others.

The input of a layer is a row [x | h]: x has been rectified and may be large, h are states of an
LSTM in (-1, 1). The x of a row are quantised to 0..255 by their maximum, h by a constant scale,
weights by the maximum of each column, separately for x and h.

    y = bias + s_x(row) w_x(column) sum(x' w') + w_h(column) sum(h' w') / 127

Integers are added without rounding, so a row's result has the same bits beside any other rows.
AVX-512 VNNI multiplies and adds four pairs for each of 16 columns at once. AVX2 takes more
instructions for 8 columns: the first adds two products in 16 bits, then two such sums are added
there, and their sum goes on in 32 bits. So a column's weights are scaled to what fits into 16 bits:
of four that are added, those above zero have a sum of 128 at most, and those below as well.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from cortado.model.arrays import Array
from cortado.model.compiled.emitter import Emitter
from cortado.model.compiled.functions import FAST
from cortado.model.compiled.jit import uncounted
from cortado.model.compiled.product import LARGE, SMALL, aligned, block_at, padded, product, wide
from cortado.model.compiled.vectors import (
    COLUMNS,
    LANES,
    VECTORS,
    Instruction,
    cpu_features,
    float_of,
    multiplied,
)

VNNI = LANES == 16 and "avx512vnni" in cpu_features()
AVX2 = LANES == 8

MAX_INPUT = 255  # code of the largest rectified input
MAX_SIGNED = 127  # of states around ZERO_POINT
MAX_WEIGHT = 127
ZERO_POINT = 128
QUAD = 4  # pairs that are multiplied at once, for each column
TOGETHER = 1 if VNNI else 2  # products that are added before their sum goes on in 32 bits
STEP = QUAD * TOGETHER  # pairs of those products
MAX_SUM = 32767 // MAX_INPUT - TOGETHER  # of weights of one sign in 16 bits; rounding may add more


class QuantizedMatrix(NamedTuple):
    """An affine map of rows [x | h] whose weights are integers."""

    # int8: panels of COLUMNS columns, QUAD rows of a column beside each other; zeros fill up the
    # rows of x, and those of h, to whole steps
    weight: Array
    bias: Array  # (N,) float32, less the contribution of ZERO_POINT
    x_scale: Array  # (N,) float32: scale of the weights of x
    h_scale: Array  # (N,) float32: scale of the weights of h, over MAX_SIGNED
    inputs: int  # x in a row
    states: int  # h


def has_integer_products() -> bool:
    """Return whether this CPU multiplies 8-bit integers faster than floats."""
    return VNNI or AVX2


def quantized(
    weight: NDArray[np.float32], inputs: int, bias: NDArray[np.floating[Any]]
) -> QuantizedMatrix:
    """Return the affine map of a (K, N) weight whose first rows are of x; N is whole panels."""
    x, x_steps = _integers(weight[:inputs])
    h, h_steps = _integers(weight[inputs:])
    added = ZERO_POINT / MAX_SIGNED * h_steps * h.sum(0, np.int64)
    whole = np.concatenate([_whole_steps(x), _whole_steps(h)])
    k, n = whole.shape
    panels = whole.reshape(k // QUAD, QUAD, n // COLUMNS, COLUMNS).transpose(2, 0, 3, 1)
    placed = aligned(np.int8, whole.size)
    placed[:] = panels.ravel()
    x_scale, h_scale = padded(x_steps), padded(h_steps / MAX_SIGNED)
    return QuantizedMatrix(placed, padded(bias - added), x_scale, h_scale, len(x), len(h))


def _integers(weight: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
    """Return weights as integers, and the scale of each column."""
    steps = np.abs(weight, dtype=np.float64).max(0, initial=0) / MAX_WEIGHT
    if AVX2:
        added = _whole_steps(weight).reshape(-1, TOGETHER, 2, QUAD // 2, weight.shape[1])
        for sign in (1, -1):
            sums = np.maximum(sign * added, 0).sum((1, 3), np.float64)
            steps = np.maximum(steps, sums.max((0, 1), initial=0) / MAX_SUM)
    steps = np.where(steps > 0, steps, 1)
    return np.rint(weight / steps).astype(np.int8), steps


def _whole_steps(weight: Array) -> Array:
    """Return (K, N) weights with zeros up to whole steps."""
    return np.pad(weight, ((0, -len(weight) % STEP), (0, 0)))


class Segments(NamedTuple):
    """Where the codes of a row are: segments of x, then segments of h."""

    row: int  # from one row to the next; they may overlap, as a convolution's do
    xs: int  # segments of x
    nx: int  # steps in one
    hs: int  # segments of h
    nh: int  # steps in one
    apart: int  # from one segment to the next


def _block(rows: int) -> Any:
    """Return an intrinsic: `rows` rows and COLUMNS columns of a product.

    Its arguments: codes (uint8), their `Segments`, the map, the panel, the rows' scales, C, the
    length of C's rows, and the first row.
    """

    def typed(typing, codes, runs, m, panel, scales, c, n, first):  # type: ignore[no-untyped-def]
        def generate(context: Any, builder: Any, given: Any, arguments: Any) -> Any:
            parts = zip(given.args, arguments, strict=True)
            flat = [one for kind, value in parts for one in _members(builder, kind, value)]
            kinds, values = zip(*flat, strict=True)
            _emit(Emitter(context, builder, kinds, values), rows)
            return context.get_dummy_value()

        whole = types.intp
        return types.void(codes, runs, m, whole, scales, c, whole, whole), generate

    return intrinsic(typed)


def _members(builder: Any, kind: Any, value: Any) -> list[tuple[Any, Any]]:
    """Return the types and values in a tuple, or those of what is none."""
    if not isinstance(kind, types.BaseTuple):
        return [(kind, value)]
    kinds: Any = kind
    return [(one, builder.extract_value(value, k)) for k, one in enumerate(kinds)]


_FLOAT, _INT8, _INT16 = ir.FloatType(), ir.IntType(8), ir.IntType(16)
_INT32, _INT64 = ir.IntType(32), ir.IntType(64)
_SUMS, _COUNTS = ir.VectorType(_FLOAT, LANES), ir.VectorType(_INT32, LANES)
_WIDTH = 4 * LANES  # bytes of a register


def _emit(e: Emitter, rows: int) -> None:
    b = e.builder
    row, xs, nx, hs, nh, apart = e.arguments[1:7]
    panel, _, _, n, first = e.arguments[13:]
    column = e.times(panel, COLUMNS)
    steps = b.add(b.mul(xs, nx), b.mul(hs, nh))
    a0, b0 = b.mul(first, row), b.mul(column, e.times(steps, STEP))
    starts = [e.at(e.pointer(0, a0, 1), e.times(row, r)) for r in range(rows)]
    weights, scales = e.pointer(7, b0, 1), e.pointer(14, first, 4)
    to = e.pointer(15, b.add(b.mul(first, n), column), 4)
    bias, x_scale, h_scale = (e.pointer(k, column, 4) for k in (8, 9, 10))
    nothing = [ir.Constant(_COUNTS, [0] * LANES)] * (rows * VECTORS)
    later = [e.at(start, b.mul(xs, apart)) for start in starts]
    beyond = e.at(weights, e.times(b.mul(xs, nx), _WIDTH * VECTORS * TOGETHER))
    parts = ((starts, (xs, apart, nx), weights), (later, (hs, apart, nh), beyond))
    how = nothing, _COUNTS, _multiply_add(e)
    x_sums, h_sums = (multiplied(e, *part, *how, together=TOGETHER) for part in parts)
    fma = e.function(f"llvm.fma.v{LANES}f32", _SUMS, _SUMS, _SUMS, _SUMS)
    for v in range(VECTORS):
        add, by_x, by_h = (e.load(e.at(p, _WIDTH * v), _SUMS) for p in (bias, x_scale, h_scale))
        for r in range(rows):
            scale = e.spread(e.load(e.at(scales, 4 * r), _FLOAT), LANES)
            x, h = (b.sitofp(part[r * VECTORS + v], _SUMS) for part in (x_sums, h_sums))
            found = b.call(fma, [x, b.fmul(by_x, scale), b.call(fma, [h, by_h, add])])
            e.store(found, e.at(to, b.add(e.times(n, 4 * r), ir.Constant(_INT64, _WIDTH * v))))


def _multiply_add(e: Emitter) -> Instruction:
    """Return what adds the products of four codes and four weights to each sum."""
    call = e.builder.call
    if VNNI:
        dot = e.function("llvm.x86.avx512.vpdpbusd.512", _COUNTS, _COUNTS, _COUNTS, _COUNTS)
        return lambda total, codes, weights: call(dot, [total, *codes, *weights])
    bytes_, pairs = ir.VectorType(_INT8, _WIDTH), ir.VectorType(_INT16, _WIDTH // 2)
    by_two = e.function("llvm.x86.avx2.pmadd.ub.sw", pairs, bytes_, bytes_)
    by_four = e.function("llvm.x86.avx2.pmadd.wd", _COUNTS, pairs, pairs)
    ones = ir.Constant(pairs, [1] * pairs.count)

    def added(total: Any, codes: Sequence[Any], weights: Sequence[Any]) -> Any:
        both = zip(codes, weights, strict=True)
        bits = ([e.builder.bitcast(one, bytes_) for one in pair] for pair in both)
        twos = reduce(e.builder.add, (call(by_two, pair) for pair in bits))
        return e.builder.add(total, call(by_four, [twos, ones]))

    return added


_large, _small, _single = _block(LARGE), _block(SMALL), _block(1)


@uncounted()
def integer_product(
    codes: Array,
    row: int,
    xs: int,
    hs: int,
    apart: int,
    scales: Array,
    m: QuantizedMatrix,
    c: Array,
    rows: int,
) -> None:
    """Set C (rows, N) to an affine map of rows of codes, in compiled code.

    Args:
        codes: uint8; they may overlap, as a convolution's do. Fewer than STEP are read beyond them.
        row: from one row to the next.
        xs: segments of x in a row.
        hs: segments of h after them.
        apart: from one segment to the next.
        scales: of the x of each row.
        m: the map.
        c: flat, float32.
        rows: how many.
    """
    n, x_step, h_step = len(m.bias), STEP * max(xs, 1), STEP * max(hs, 1)
    runs = Segments(row, xs, -(-m.inputs // x_step), hs, -(-m.states // h_step), apart)
    for panel in range(n // COLUMNS):
        r = 0
        while r < rows:
            r, height = block_at(r, rows)
            if height == LARGE:
                _large(codes, runs, m, panel, scales, c, n, r)
            elif height == SMALL:
                _small(codes, runs, m, panel, scales, c, n, r)
            else:
                _single(codes, runs, m, panel, scales, c, n, r)
            r += height


@uncounted(fastmath=FAST, error_model="numpy", forceinline=True)
def quantize_inputs(
    source: Array, start: int, codes: Array, to: int, count: int, maximum: np.float32
) -> None:
    """Store x as integers from 0 to MAX_INPUT, the code of the maximum."""
    x, target = source[start : start + count], codes[to : to + count]
    by = np.float32(MAX_INPUT) / maximum if maximum > np.float32(0) else np.float32(0)
    for k in range(count):
        target[k] = np.uint8(np.int32(wide(x, k) * by + np.float32(0.5)))


@uncounted(fastmath=FAST, error_model="numpy", forceinline=True)
def quantize_states(source: Array, start: int, codes: Array, to: int, count: int) -> None:
    """Store h as integers around ZERO_POINT."""
    h, target = source[start : start + count], codes[to : to + count]
    for k in range(count):
        target[k] = np.uint8(
            np.int32(wide(h, k) * np.float32(MAX_SIGNED) + np.float32(ZERO_POINT + 0.5))
        )


def largest(given: Any, start: Any, count: Any) -> Any:
    """Return the largest of numbers of bf16 or float32, or 0, in compiled code."""
    raise NotImplementedError("expected to be compiled")


@overload(largest, inline="always")
def _largest(given, start, count):  # type: ignore[no-untyped-def]
    narrow = given.dtype == types.uint16
    kind, shift = (np.int16, np.int32(16)) if narrow else (np.int32, np.int32(0))

    def found(given, start, count):  # type: ignore[no-untyped-def]
        maximum, bits = kind(0), given[start : start + count].view(kind)
        for k in range(count):  # in the order of integers, else it is not vectorised
            maximum = max(maximum, bits[k])
        return float_of(np.int32(np.int32(maximum) << shift))

    return found


def affine(m: Any, a: Any, row: Any, k: Any, c: Any, rows: Any, codes: Any, scales: Any) -> None:
    """Set C (rows, N) to an affine map of rows of A, in compiled code.

    Args:
        m: the map, `Matrix` or `QuantizedMatrix`.
        a: rows [x | h], bf16 or float32.
        row: elements from one row to the next.
        k: in a row.
        c: flat, float32.
        rows: how many.
        codes: scratch for the quantised rows.
        scales: scratch for one number a row.
    """
    raise NotImplementedError("expected to be compiled")


@overload(affine)
def _affine(m, a, row, k, c, rows, codes, scales):  # type: ignore[no-untyped-def]
    if m.instance_class is not QuantizedMatrix:
        return lambda m, a, row, k, c, rows, codes, scales: product(
            a, 0, row, 1, 0, k, m.weight, m.bias, c, rows
        )

    def through_integers(m, a, row, k, c, rows, codes, scales):  # type: ignore[no-untyped-def]
        x, h = m.inputs, m.states
        for r in range(rows):
            maximum = largest(a, r * row, x)
            quantize_inputs(a, r * row, codes, r * k, x, maximum)
            quantize_states(a, r * row + x, codes, r * k + x, h)
            scales[r] = maximum / np.float32(MAX_INPUT)
        integer_product(codes, k, min(x, 1), min(h, 1), x, scales, m, c, rows)

    return through_integers
