"""The gates of an LSTM, as many units at a time as a register holds.

LLVM would vectorise the loop itself, but with registers of half the width and five divisions for
each unit, of which two are enough.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from cortado.model.compiled.emitter import Emitter, emitted
from cortado.model.compiled.functions import TANH_DENOMINATOR, TANH_LIMIT, TANH_NUMERATOR
from cortado.model.compiled.vectors import LANES

_FLOAT, _INT16, _INT32 = ir.FloatType(), ir.IntType(16), ir.IntType(32)
_SUMS = ir.VectorType(_FLOAT, LANES)


def _advance_cell(typing, gates, i, f, g, o, cell, c, hidden, h):  # type: ignore[no-untyped-def]
    """Advance LANES units: c = sigmoid(f) c + sigmoid(i) tanh(g), h = sigmoid(o) tanh(c).

    Its arguments: an array of gates, float32, and where in it each gate begins; cells, float32,
    and hidden states, bf16 or float32, each followed by the offset of its first element.
    """
    narrow = hidden.dtype == types.uint16
    whole = types.intp
    signature = types.void(gates, whole, whole, whole, whole, cell, whole, hidden, whole)
    return emitted(signature, lambda e: _emit(e, narrow))


advance_cell: Any = intrinsic(_advance_cell)


def _emit(e: Emitter, narrow: bool) -> None:
    """Emit the cell with tanh(x) = p / q and sigmoid(2 x) = (q + p) / 2 q, two divisions in all."""
    b, arguments = e.builder, e.arguments
    i, f, g, o = (e.load(e.pointer(0, arguments[k], 4), _SUMS) for k in (1, 2, 3, 4))
    place, half = e.pointer(5, arguments[6], 4), _constant(0.5)
    (pi, qi), (pf, qf), (po, qo) = (_ratio(e, b.fmul(half, gate)) for gate in (i, f, o))
    pg, qg = _ratio(e, g)
    q = b.fmul(qi, qg)
    forget_part = b.fmul(b.fmul(b.fadd(qf, pf), q), e.load(place, _SUMS))
    input_part = b.fmul(b.fmul(b.fadd(qi, pi), pg), qf)
    cell = b.fdiv(b.fmul(half, b.fadd(forget_part, input_part)), b.fmul(q, qf))
    e.store(cell, place)
    pc, qc = _ratio(e, cell)
    hidden = b.fdiv(b.fmul(b.fmul(half, b.fadd(qo, po)), pc), b.fmul(qo, qc))
    target = e.pointer(7, arguments[8], 2 if narrow else 4)
    e.store(_narrowed(e, hidden) if narrow else hidden, target, 2 if narrow else 4)


def _ratio(e: Emitter, x: Any) -> tuple[Any, Any]:
    """Return p and q of tanh(x) = p / q, as `model.compiled.functions.tanh` has them."""
    b, highest, lowest = e.builder, _constant(TANH_LIMIT), _constant(-TANH_LIMIT)
    x = b.select(b.fcmp_ordered("<", x, highest), x, highest)
    x = b.select(b.fcmp_ordered(">", x, lowest), x, lowest)
    square = b.fmul(x, x)
    p, q = (_polynomial(e, square, of) for of in (TANH_NUMERATOR, TANH_DENOMINATOR))
    return b.fmul(x, p), q


def _polynomial(e: Emitter, x: Any, coefficients: tuple[Any, ...]) -> Any:
    fma = e.function(f"llvm.fma.v{LANES}f32", _SUMS, _SUMS, _SUMS, _SUMS)
    value = _constant(coefficients[0])
    for coefficient in coefficients[1:]:
        value = e.builder.call(fma, [value, x, _constant(coefficient)])
    return value


def _narrowed(e: Emitter, x: Any) -> Any:
    """Return float32 as bf16, rounded as `vectors.narrowed` does."""
    b, whole = e.builder, ir.VectorType(_INT32, LANES)
    bits, shift = b.bitcast(x, whole), ir.Constant(whole, [16] * LANES)
    odd = b.and_(b.lshr(bits, shift), ir.Constant(whole, [1] * LANES))
    rounded = b.add(b.add(bits, ir.Constant(whole, [0x7FFF] * LANES)), odd)
    return b.trunc(b.lshr(rounded, shift), ir.VectorType(_INT16, LANES))


def _constant(value: Any) -> Any:
    return ir.Constant(_SUMS, [float(value)] * LANES)
