"""Convolutions of frames of several streams, compiled: products whose rows overlap.

Frames lie side by side, stream after stream, each with a zero edge of CHANNELS numbers on both
sides. They are convolved at once, the rows between two streams too: what these give is not used.
"""

from typing import Any

import numba
import numpy as np
from numba.extending import overload

from cortado.model.backends.cpu.layout import CHANNELS, STREAMS, Array
from cortado.model.compiled.integers import MOST, Coded, by_codes, code_h, code_x, largest
from cortado.model.compiled.product import product

PATCH = 3 * CHANNELS  # numbers of a frame under a kernel


def convolved(
    m: Any, frames: Any, size: Any, apart: Any, c: Any, count: Any, codes: Any, scales: Any
) -> None:
    """Set C (count * R, N) to a convolution of frames, R patches in each, in compiled code.

    Args:
        m: `Matrix` or `Coded` of patches, frame by frame: those that were rectified first, then
            states.
        frames: flat, bf16 or float32.
        size: numbers in a frame.
        apart: CHANNELS from one patch to the next, R = size / CHANNELS / apart.
        c: flat, float32.
        count: streams.
        codes: room for the frames as integers, whose edges stand for zeros.
        scales: room for a number a row of C.
    """
    raise NotImplementedError("expected to be compiled")


@overload(convolved)
def _convolved(m, frames, size, apart, c, count, codes, scales):  # type: ignore[no-untyped-def]
    return _by_integers if m.instance_class is Coded else _by_floats


def _by_floats(m, frames, size, apart, c, count, codes, scales):  # type: ignore[no-untyped-def]
    rows, number = count * (size // (apart * CHANNELS)), len(frames) // (STREAMS * size)
    row, segment = apart * CHANNELS, STREAMS * size
    product(frames, 0, row, number, segment, PATCH, m.weight, m.bias, c, rows)


def _by_integers(m, frames, size, apart, c, count, codes, scales):  # type: ignore[no-untyped-def]
    _code(m, frames, size, count, codes, scales, size // (apart * CHANNELS))
    rows, segment = count * (size // (apart * CHANNELS)), STREAMS * size
    xs, hs = m.inputs // PATCH, m.states // PATCH
    by_codes(codes, apart * CHANNELS, xs, hs, segment, scales, m, c, rows)


@numba.njit(nogil=True)
def _code(
    m: Coded, frames: Array, size: int, count: int, codes: Array, scales: Array, rows: int
) -> None:
    """Store streams' frames as integers, each stream's rectified ones by the largest of them."""
    xs, hs, some = m.inputs // PATCH, m.states // PATCH, size - 2 * CHANNELS
    for r in range(count):
        start, most = r * size + CHANNELS, np.float32(0)
        for k in range(xs):
            most = max(most, largest(frames, start + k * STREAMS * size, some))
        for k in range(xs):
            at = start + k * STREAMS * size
            code_x(frames, at, codes, at, some, most)
        for k in range(xs, xs + hs):
            at = start + k * STREAMS * size
            code_h(frames, at, codes, at, some)
        scales[r * rows : (r + 1) * rows] = most / np.float32(MOST)
