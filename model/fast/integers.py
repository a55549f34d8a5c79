"""Products of 8-bit integers, for the recurrent layers: nearly twice as fast as those of bf16.

What an LSTM reads is a row [x | h] of two kinds: x, which has been rectified and may be large, and
its own state h in (-1, 1). A row's x become integers from 0 to 255 by the largest of them, h by a
scale that is always the same; weights by the largest of each column, those of x and of h apart.

    y = bias + s_x(row) w_x(column) sum(x' w') + w_h(column) sum(h' w') / 127

Integers are added without rounding, so a row's result has the same bits beside any other rows.
They are multiplied by AVX-512 VNNI, four pairs for each of 16 columns at once.
"""

from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from model.fast.product import padded, product, room, wide
from model.fast.vectors import BLOCKS, COLUMNS, LANES, VECTORS, Emitter, cpu_features, multiplied
from model.kernels import FAST

Array = NDArray[Any]

MOST = 255  # of what is rectified
HALF = 127  # of weights and of states, which lie around ZERO
ZERO = 128
QUAD = 4  # pairs that an instruction multiplies and adds, for each column

_LARGE, _SMALL = BLOCKS[0], BLOCKS[-2]


class Coded(NamedTuple):
    """An affine map of rows [x | h] whose weights are integers."""

    weight: Array  # int8: panels of COLUMNS columns, QUAD rows of a column beside each other
    bias: Array  # (N,) float32, with what ZERO adds taken off
    of_x: Array  # (N,) float32: what an integer weight of x stands for
    of_h: Array  # (N,) float32: of h, over HALF
    inputs: int  # x in a row
    states: int  # h


def has_byte_products() -> bool:
    """Return whether this CPU multiplies 8-bit integers, 16 columns at once."""
    return LANES == 16 and "avx512vnni" in cpu_features()


def coded(weight: NDArray[np.float32], inputs: int, bias: NDArray[np.floating[Any]]) -> Coded:
    """Return the affine map of a (K, N) weight whose first rows are of x; N is whole panels."""
    x, of_x = _integers(weight[:inputs])
    h, of_h = _integers(weight[inputs:])
    added = ZERO / HALF * of_h * h.sum(0, np.int64)
    whole = np.concatenate([x, h])
    k, n = whole.shape
    panels = whole.reshape(k // QUAD, QUAD, n // COLUMNS, COLUMNS).transpose(2, 0, 3, 1)
    placed = room(np.int8, whole.size)
    placed[:] = panels.ravel()
    less, by_x, by_h = (padded(part) for part in (bias - added, of_x, of_h / HALF))
    return Coded(placed, less, by_x, by_h, inputs, k - inputs)


def _integers(weight: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
    """Return weights as integers, and what one stands for in each column."""
    largest = np.abs(weight, dtype=np.float64).max(0, initial=0)
    steps = np.where(largest > 0, largest, 1) / HALF
    return np.rint(weight / steps).astype(np.int8), steps


def _block(rows: int) -> Any:
    """Return an intrinsic: `rows` rows and COLUMNS columns of a product.

    Its arguments: codes (uint8), where the first row begins, and from one row to the next; the
    quads of x and of h; weights and where the panel begins; the rows' scales and the first one;
    bias, scales of x and of h, and the first column; C, where it begins, and its rows' length.
    """

    def typed(typing, a, a0, row, nx, nh, b, b0, s, s0, bias, x, h, column, c, c0, c_row):  # type: ignore[no-untyped-def]
        whole = types.intp
        signature = types.void(
            a, whole, whole, whole, whole, b, whole, s, whole, bias, x, h, whole, c, whole, whole
        )

        def generate(context: Any, builder: Any, given: Any, arguments: Any) -> Any:
            _emit(Emitter(context, builder, given.args, arguments), rows)
            return context.get_dummy_value()

        return signature, generate

    return intrinsic(typed)


_FLOAT, _INT32, _INT64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_SUMS, _COUNTS = ir.VectorType(_FLOAT, LANES), ir.VectorType(_INT32, LANES)
_WIDTH = 4 * LANES  # bytes of a register


def _emit(e: Emitter, rows: int) -> None:
    _, a0, row, nx, nh, _, b0, _, s0, _, _, _, column, _, c0, c_row = e.arguments
    b = e.builder
    starts = [e.at(e.pointer(0, a0, 1), e.times(row, r)) for r in range(rows)]
    panel, scales, to = e.pointer(5, b0, 1), e.pointer(7, s0, 4), e.pointer(13, c0, 4)
    bias, of_x, of_h = (e.pointer(k, column, 4) for k in (9, 10, 11))
    heard = _summed(e, starts, panel, nx, "x")
    later = [e.at(start, e.times(nx, QUAD)) for start in starts]
    kept = _summed(e, later, e.at(panel, e.times(nx, _WIDTH * VECTORS)), nh, "h")
    fma = e.function(f"llvm.fma.v{LANES}f32", _SUMS, _SUMS, _SUMS, _SUMS)
    for v in range(VECTORS):
        add, by_x, by_h = (e.load(e.at(p, _WIDTH * v), _SUMS) for p in (bias, of_x, of_h))
        for r in range(rows):
            scale = e.spread(e.load(e.at(scales, 4 * r), _FLOAT), LANES)
            x, h = (b.sitofp(part[r * VECTORS + v], _SUMS) for part in (heard, kept))
            found = b.call(fma, [x, b.fmul(by_x, scale), b.call(fma, [h, by_h, add])])
            e.store(found, e.at(to, b.add(e.times(c_row, 4 * r), ir.Constant(_INT64, _WIDTH * v))))


def _summed(e: Emitter, starts: list[Any], panel: Any, count: Any, name: str) -> list[Any]:
    """Return the sums of `count` quads, rows by VECTORS registers."""
    b, nothing = e.builder, ir.Constant(_COUNTS, [0] * LANES)
    before = b.block
    head, body, after = (b.append_basic_block(name + part) for part in ("?", "+", "."))
    b.branch(head)
    b.position_at_end(head)
    i, sums = b.phi(_INT64), [b.phi(_COUNTS) for _ in range(len(starts) * VECTORS)]
    b.cbranch(b.icmp_unsigned("<", i, count), body, after)
    b.position_at_end(body)
    dot = e.function("llvm.x86.avx512.vpdpbusd.512", _COUNTS, _COUNTS, _COUNTS, _COUNTS)
    results = multiplied(e, i, starts, panel, sums, _COUNTS, lambda *given: b.call(dot, given))
    i.add_incoming(ir.Constant(_INT64, 0), before)
    i.add_incoming(b.add(i, ir.Constant(_INT64, 1)), body)
    for phi, result in zip(sums, results, strict=True):
        phi.add_incoming(nothing, before)
        phi.add_incoming(result, body)
    b.branch(head)
    b.position_at_end(after)
    return sums


_large, _small, _single = _block(_LARGE), _block(_SMALL), _block(1)


@numba.njit(nogil=True)
def _multiplied(codes: Array, row: int, scales: Array, m: Coded, c: Array, rows: int) -> None:
    """Set C (rows, N) to what the map makes of rows of codes, `row` apart, and their scales."""
    n, x, h = len(m.bias), m.inputs // QUAD, m.states // QUAD
    w, add, of_x, of_h = m.weight, m.bias, m.of_x, m.of_h
    for panel in range(n // COLUMNS):
        p, column = panel * COLUMNS * QUAD * (x + h), panel * COLUMNS
        r = 0
        while r < rows:
            at, to = r * row, r * n + column
            if r + _LARGE <= rows:
                _large(codes, at, row, x, h, w, p, scales, r, add, of_x, of_h, column, c, to, n)
                r += _LARGE
            elif r + _SMALL <= rows:
                _small(codes, at, row, x, h, w, p, scales, r, add, of_x, of_h, column, c, to, n)
                r += _SMALL
            else:
                _single(codes, at, row, x, h, w, p, scales, r, add, of_x, of_h, column, c, to, n)
                r += 1


@numba.njit(nogil=True, fastmath=FAST, error_model="numpy", forceinline=True)
def _code_x(given: Array, start: int, codes: Array, to: int, count: int) -> np.float32:
    """Store x as integers; return what a 1 stands for."""
    x, taken, most = given[start : start + count], codes[to : to + count], np.float32(0)
    for k in range(count):
        most = max(most, wide(x, k))
    by = np.float32(MOST) / most if most > np.float32(0) else np.float32(0)
    for k in range(count):
        taken[k] = np.uint8(np.int32(wide(x, k) * by + np.float32(0.5)))
    return most / np.float32(MOST)


@numba.njit(nogil=True, fastmath=FAST, error_model="numpy", forceinline=True)
def _code_h(given: Array, start: int, codes: Array, to: int, count: int) -> None:
    """Store h as integers around ZERO."""
    h, taken = given[start : start + count], codes[to : to + count]
    for k in range(count):
        taken[k] = np.uint8(np.int32(wide(h, k) * np.float32(HALF) + np.float32(ZERO + 0.5)))


def affine(m: Any, a: Any, row: Any, k: Any, c: Any, rows: Any, codes: Any, scales: Any) -> None:
    """Set C (rows, N) to what a map, `Matrix` or `Coded`, makes of rows of A, in compiled code.

    Args:
        m: the map.
        a: rows [x | h], bf16 or float32.
        row: elements from one row to the next.
        k: in a row.
        c: flat, float32.
        rows: how many.
        codes: room for the rows as integers.
        scales: room for one number a row.
    """
    raise NotImplementedError("expected to be compiled")


@overload(affine)
def _affine(m, a, row, k, c, rows, codes, scales):  # type: ignore[no-untyped-def]
    if m.instance_class is not Coded:
        return lambda m, a, row, k, c, rows, codes, scales: product(
            a, 0, row, 1, 0, k, m.weight, m.bias, c, rows
        )

    def through_integers(m, a, row, k, c, rows, codes, scales):  # type: ignore[no-untyped-def]
        for r in range(rows):
            scales[r] = _code_x(a, r * row, codes, r * k, m.inputs)
            _code_h(a, r * row + m.inputs, codes, r * k + m.inputs, m.states)
        _multiplied(codes, k, scales, m, c, rows)

    return through_integers
