"""Matrix products by explicit vector instructions, where LLVM does not find them itself.

`product_tile` is the inner part of a matrix product: a block of rows and columns kept in registers
while the inner dimension runs by. Each element is one chain of fused multiply-adds in the order
of the inner dimension, whatever the shape of the block: a row's result has the same bits beside
any other rows. `butterfly` is a step of sixteen Fourier transforms side by side.

With bf16 numbers (held as uint16) one instruction multiplies 2 x 16 pairs and adds them in fp32, on
CPUs with AVX-512 BF16. The fp32 form is plain LLVM and runs everywhere.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import config
from numba.extending import intrinsic

from cortado.model.compiled.emitter import Emitter, emitted, int64

BF16 = np.uint16  # the upper half of a float32
FRAMES = 16  # Fourier transforms side by side

_FLOAT, _INT8, _INT16, _INT32 = ir.FloatType(), ir.IntType(8), ir.IntType(16), ir.IntType(32)
_INT64 = ir.IntType(64)


def cpu_features() -> set[str]:
    """Return LLVM's names of this CPU's features, or of those in NUMBA_CPU_FEATURES."""
    configured = getattr(config, "CPU_FEATURES", None)
    if configured is not None:
        return {part[1:] for part in configured.split(",") if part.startswith("+")}
    return {name for name, has in llvmlite.binding.get_host_cpu_features().items() if has}


def _lanes() -> int:
    features = cpu_features()
    return 16 if "avx512f" in features else 8 if "avx2" in features else 4


LANES = _lanes()  # float32 in a register
VECTORS = 2  # registers beside each other in a block
COLUMNS = LANES * VECTORS
# rows of a large and a small block: their sums, and what is added to them, fit into the registers
BLOCKS = (8, 4) if LANES == 16 else (4, 4)


def has_bf16_products() -> bool:
    """Return whether this CPU multiplies bf16."""
    return "avx512bf16" in cpu_features()


def product_tile(rows: int, vectors: int, lanes: int) -> Callable[..., None]:
    """Return an intrinsic: C = bias + A B for `rows` rows and `vectors` x `lanes` columns.

    Its arguments are arrays, contiguous, each followed by the offset of its first element:
        a, start: uint16 (bf16) or float32;
        row: elements between rows of A;
        segments, segment, k: a row of A is `segments` runs of k elements, `segment` apart;
        b, start: packed by `product.packed`, all segments after each other;
        bias, start; c, start, row: float32.
    """

    @intrinsic
    def tile(typing, a, a0, row, segments, segment, k, b, b0, bias, bias0, c, c0, c_row):  # type: ignore[no-untyped-def]
        narrow = a.dtype == types.uint16
        whole = types.intp
        signature = types.void(
            a, whole, whole, whole, whole, whole, b, whole, bias, whole, c, whole, whole
        )
        return emitted(signature, lambda e: _emit_tile(e, rows, vectors, lanes, narrow))

    return tile


def _emit_tile(e: Emitter, rows: int, vectors: int, lanes: int, narrow: bool) -> None:
    _, a0, row, segments, segment, k, _, b0, _, bias0, _, c0, c_row = e.arguments
    size = 2 if narrow else 4
    width = 4 * lanes  # bytes of a register
    sums, builder = ir.VectorType(_FLOAT, lanes), e.builder
    a, b = e.pointer(0, a0, size), e.pointer(6, b0, size)
    bias, c = e.pointer(8, bias0, 4), e.pointer(10, c0, 4)
    first = [e.load(e.at(bias, width * v), sums) for v in range(vectors)] * rows
    starts = [e.at(a, e.times(builder.mul(row, int64(r)), size)) for r in range(rows)]
    steps = builder.udiv(k, int64(2)) if narrow else k
    runs = segments, e.times(segment, size), steps
    results = multiplied(e, starts, runs, b, first, *_instruction(e, lanes, narrow))
    for r in range(rows):
        target = e.at(c, e.times(c_row, 4 * r))
        for v in range(vectors):
            e.store(results[r * vectors + v], e.at(target, width * v))


# what a sum, elements of A and as many of B give
Instruction = Callable[[Any, Sequence[Any], Sequence[Any]], Any]


def _instruction(e: Emitter, lanes: int, narrow: bool) -> tuple[Any, Instruction]:
    """Return what a register of A or B holds, and the instruction that multiplies and adds."""
    sums, pairs = ir.VectorType(_FLOAT, lanes), ir.VectorType(_INT32, lanes)
    call = e.builder.call
    if narrow:
        dot = e.function("llvm.x86.avx512bf16.dpbf16ps.512", sums, sums, pairs, pairs)
        return pairs, lambda total, left, column: call(dot, [total, *left, *column])
    fma = e.function(f"llvm.fma.v{lanes}f32", sums, sums, sums, sums)
    return sums, lambda total, left, column: call(fma, [*left, *column, total])


def multiplied(
    e: Emitter,
    starts: list[Any],
    runs: tuple[Any, Any, Any],
    panel: Any,
    first: list[Any],
    kind: Any,
    instruction: Instruction,
    together: int = 1,
) -> list[Any]:
    """Emit the loop over the inner dimension; return its sums at the end of the emitted code.

    Args:
        e: where it is emitted.
        starts: addresses of the rows of A.
        runs: how many a row of A is, the bytes from one to the next, the steps in one.
        panel: address of B's, with the steps of all runs after each other.
        first: what the sums begin with, a row's beside each other.
        kind: what a register of A or B holds, of which an element has 32 bits.
        instruction: what multiplies and adds.
        together: elements of a row that a step takes.
    """
    many, apart, steps = runs
    b, vectors, width = e.builder, len(first) // len(starts), 4 * kind.count
    step = width * vectors * together  # bytes of B
    before = b.block
    outer, enter, inner, leave, end = (b.append_basic_block(n) for n in ("s?", "s", "k", "s+", "."))
    b.branch(outer)

    b.position_at_end(outer)
    s, carried = b.phi(_INT64), [b.phi(one.type) for one in first]
    b.cbranch(b.icmp_unsigned("<", s, many), enter, end)

    b.position_at_end(enter)
    rows = [e.at(start, b.mul(apart, s)) for start in starts]
    here = e.at(panel, b.mul(b.mul(steps, s), int64(step)))
    b.branch(inner)

    b.position_at_end(inner)
    i, running = b.phi(_INT64), [b.phi(one.type) for one in first]
    at = e.at(here, e.times(i, step))
    panels = [e.load(e.at(at, width * n), kind) for n in range(vectors * together)]
    columns, results = [panels[v::vectors] for v in range(vectors)], []
    for r, row in enumerate(rows):
        place = e.at(row, e.times(i, 4 * together))
        single = [e.load(e.at(place, 4 * n), kind.element) for n in range(together)]
        left = [e.spread(one, kind.count) for one in single]
        for v, column in enumerate(columns):
            results.append(instruction(running[r * vectors + v], left, column))
    following = b.add(i, int64(1))
    b.cbranch(b.icmp_unsigned("<", following, steps), inner, leave)

    b.position_at_end(leave)
    later = b.add(s, int64(1))
    b.branch(outer)

    phis = [
        (s, before, int64(0), leave, later),
        (i, enter, int64(0), inner, following),
        *((p, before, x, leave, y) for p, x, y in zip(carried, first, results, strict=True)),
        *((p, enter, x, inner, y) for p, x, y in zip(running, carried, results, strict=True)),
    ]
    for phi, block, value, other, next_value in phis:
        phi.add_incoming(value, block)
        phi.add_incoming(next_value, other)
    b.position_at_end(end)
    return carried


def _narrowed(typing, x):  # type: ignore[no-untyped-def]
    """Return a float32 as bf16, rounded to the nearest, ties to even."""

    def generate(context: Any, builder: Any, given: Any, arguments: Any) -> Any:
        bits = builder.bitcast(arguments[0], _INT32)
        odd = builder.and_(builder.lshr(bits, _INT32(16)), _INT32(1))
        rounded = builder.add(builder.add(bits, _INT32(0x7FFF)), odd)
        return builder.trunc(builder.lshr(rounded, _INT32(16)), _INT16)

    return types.uint16(types.float32), generate


def _float_of(typing, bits):  # type: ignore[no-untyped-def]
    """Return the float32 that an int32's bits are."""
    return types.float32(types.int32), lambda c, builder, s, a: builder.bitcast(a[0], _FLOAT)


def _butterfly(typing, re, im, start, apart, factors, factor0):  # type: ignore[no-untyped-def]
    """Do one radix-4 step of FRAMES Fourier transforms in place, decimation in frequency.

    Its arguments: re, im (n, FRAMES) float32; the first of four rows and the rows between them;
    float32 factors, six from an offset: w1, w2, w3 as real and imaginary parts.
    """
    whole = types.intp
    return emitted(types.void(re, im, whole, whole, factors, whole), _emit_butterfly)


def _emit_butterfly(e: Emitter) -> None:
    _, _, start, apart, _, factor0 = e.arguments
    b, kind = e.builder, ir.VectorType(_FLOAT, FRAMES)
    places = [b.add(start, e.times(apart, k)) for k in range(4)]
    re = [e.pointer(0, e.times(p, FRAMES), 4) for p in places]
    im = [e.pointer(1, e.times(p, FRAMES), 4) for p in places]
    x, y = [e.load(p, kind) for p in re], [e.load(p, kind) for p in im]
    factors = e.pointer(4, factor0, 4)
    w = [e.spread(e.load(e.at(factors, 4 * k), _FLOAT), FRAMES) for k in range(6)]
    add, sub, mul = (partial(f, flags=("contract",)) for f in (b.fadd, b.fsub, b.fmul))
    sx, dx, sy, dy = add(x[0], x[2]), sub(x[0], x[2]), add(y[0], y[2]), sub(y[0], y[2])
    tx, ex, ty, ey = add(x[1], x[3]), sub(x[1], x[3]), add(y[1], y[3]), sub(y[1], y[3])
    e.store(add(sx, tx), re[0])
    e.store(add(sy, ty), im[0])
    rotated = [(add(dx, ey), sub(dy, ex)), (sub(sx, tx), sub(sy, ty)), (sub(dx, ey), add(dy, ex))]
    for k, (p, q) in enumerate(rotated):
        c, s = w[2 * k], w[2 * k + 1]
        e.store(sub(mul(p, c), mul(q, s)), re[k + 1])
        e.store(add(mul(p, s), mul(q, c)), im[k + 1])


def _fetch_and_increment(typing, counter):  # type: ignore[no-untyped-def]
    """Return the number in an int64 array and add one to it, atomically.

    A thread that finds what another one has added finds all that this one had written before.
    """

    def generate(context: Any, builder: Any, given: Any, arguments: Any) -> Any:
        place = context.make_array(given.args[0])(context, builder, arguments[0]).data
        return builder.atomic_rmw("add", place, int64(1), "acq_rel")

    return types.int64(counter), generate


# Functions for compiled code only; numba types them there.
fetch_and_increment: Any = intrinsic(_fetch_and_increment)
narrowed: Any = intrinsic(_narrowed)
float_of: Any = intrinsic(_float_of)
butterfly: Any = intrinsic(_butterfly)
