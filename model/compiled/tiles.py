"""Intel's matrix unit (AMX) in compiled kernels: products of 16 x 32 by 32 x 16 bf16 at once.

Numbers lie in eight tiles of 16 rows of 64 bytes. All have that size always, so that a row's
result comes from the same instructions in the same order whatever rows are beside it: where fewer
than 16 are wanted, others are computed with them and not used.
"""

import ctypes
import platform
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from cortado.model.compiled.emitter import Emitter, emitted
from cortado.model.compiled.vectors import cpu_features

BF16_PAIRS = np.uint32  # two bf16 that follow each other along the inner dimension
ROWS = 16  # of a tile
INNER = 32  # bf16 in a row of a tile
_BYTES = 64  # of a row: 16 columns of float32, too

_SYS_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18  # Linux, asm/prctl.h
_INT8, _INT64, _NOTHING = ir.IntType(8), ir.IntType(64), ir.VoidType()


@cache
def has_tiles() -> bool:
    """Return whether this CPU has bf16 tiles and Linux lets this process use them."""
    if not {"amx-tile", "amx-bf16", "avx512f"} <= cpu_features():
        return False
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    given: int = libc.syscall(_SYS_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA)
    return given == 0


def _configuration() -> bytes:
    """Return the operand of `ldtilecfg`: palette 1, eight tiles of 16 rows of 64 bytes."""
    return bytes([1]).ljust(16, b"\0") + b"\x40\0" * 8 + bytes(16) + bytes([ROWS] * 8) + bytes(8)


def _configure(typing):  # type: ignore[no-untyped-def]
    """Give the thread that runs its tiles."""
    return emitted(types.void(), _emit_configure)


def _emit_configure(e: Emitter) -> None:
    constant = ir.Constant(ir.ArrayType(_INT8, 64), bytearray(_configuration()))
    place = cgutils.global_constant(e.builder, "tile.configuration", constant)  # type: ignore[no-untyped-call]
    load = e.function("llvm.x86.ldtilecfg", _NOTHING, _INT8.as_pointer())
    e.builder.call(load, [e.builder.bitcast(place, _INT8.as_pointer())])


def _release(typing):  # type: ignore[no-untyped-def]
    """Take them back: a thread without them is cheaper to switch."""
    return emitted(types.void(), _emit_release)


def _emit_release(e: Emitter) -> None:
    e.builder.call(e.function("llvm.x86.tilerelease", _NOTHING), [])


configure: Any = intrinsic(_configure)
release: Any = intrinsic(_release)


def product_block(height: int) -> Callable[..., None]:
    """Return an intrinsic: C = bias + A B for `height` x 16 rows and 2 x 16 columns.

    Its arguments are those of `vectors.product_tile`, but that k counts INNER elements at once.
    """

    @intrinsic
    def block(typing, a, a0, row, segments, segment, k, b, b0, bias, bias0, c, c0, c_row):  # type: ignore[no-untyped-def]
        whole = types.intp
        signature = types.void(
            a, whole, whole, whole, whole, whole, b, whole, bias, whole, c, whole, whole
        )
        return emitted(signature, lambda e: _emit_block(e, height))

    return block


def _emit_block(e: Emitter, height: int) -> None:
    _, a0, row, segments, segment, k, _, b0, _, bias0, _, c0, c_row = e.arguments
    pointer, builder = _INT8.as_pointer(), e.builder
    load = e.function("llvm.x86.tileloadd64", _NOTHING, _INT8, pointer, _INT64)
    store = e.function("llvm.x86.tilestored64", _NOTHING, _INT8, pointer, _INT64)
    dot = e.function("llvm.x86.tdpbf16ps", _NOTHING, _INT8, _INT8, _INT8)
    a, b = e.pointer(0, a0, 2), e.pointer(6, b0, 4)
    bias, c = e.pointer(8, bias0, 4), e.pointer(10, c0, 4)
    sums = [[_INT8(2 * m + n) for n in range(2)] for m in range(height)]
    left, right = [_INT8(4 + m) for m in range(height)], [_INT8(6), _INT8(7)]
    for m in range(height):
        for n in range(2):
            builder.call(load, [sums[m][n], e.at(bias, _BYTES * n), _INT64(0)])
    with cgutils.for_range(builder, segments) as outer, cgutils.for_range(builder, k) as inner:
        done = builder.add(builder.mul(outer.index, k), inner.index)
        panel = e.at(b, e.times(done, 2 * _BYTES * ROWS))
        across = builder.mul(outer.index, segment), e.times(inner.index, INNER)
        here = e.at(a, e.times(builder.add(*across), 2))
        for n in range(2):
            builder.call(load, [right[n], e.at(panel, _BYTES * n), _INT64(2 * _BYTES)])
        for m in range(height):
            start = e.at(here, e.times(row, 2 * ROWS * m))
            builder.call(load, [left[m], start, e.times(row, 2)])
            for n in range(2):
                builder.call(dot, [sums[m][n], left[m], right[n]])
    for m in range(height):
        target = e.at(c, e.times(c_row, 4 * ROWS * m))
        for n in range(2):
            builder.call(store, [sums[m][n], e.at(target, _BYTES * n), e.times(c_row, 4)])
