"""Convolutions of frames of several streams, compiled: products whose rows overlap.

Frames lie side by side, stream after stream, each with a zero edge of CHANNELS numbers on both
sides. They are convolved in one product, with unused rows between two streams.
"""

from typing import Any

import numpy as np
from numba.extending import overload

from cortado.model.arrays import Array
from cortado.model.backends.cpu.layout import CHANNELS, STREAMS
from cortado.model.compiled.integers import (
    MAX_INPUT,
    QuantizedMatrix,
    integer_product,
    largest,
    quantize_inputs,
    quantize_states,
)
from cortado.model.compiled.jit import uncounted
from cortado.model.compiled.product import product

PATCH = 3 * CHANNELS  # numbers of a frame under a kernel


def convolve_frames(
    m: Any, frames: Any, size: Any, stride: Any, c: Any, count: Any, codes: Any, scales: Any
) -> None:
    """Set C (count * R, N) to a convolution of frames, R patches in each, in compiled code.

    Args:
        m: `Matrix` or `QuantizedMatrix` of patches, frame by frame: rectified frames, then states.
        frames: flat, bf16 or float32.
        size: numbers in a frame.
        stride: frequencies from one patch to the next, R = size / CHANNELS / stride.
        c: flat, float32.
        count: streams.
        codes: scratch for the quantised frames, with edges of zeros.
        scales: scratch for one number a row of C.
    """
    raise NotImplementedError("expected to be compiled")


@overload(convolve_frames)
def _convolved(m, frames, size, stride, c, count, codes, scales):  # type: ignore[no-untyped-def]
    return _by_integers if m.instance_class is QuantizedMatrix else _by_floats


def _by_floats(m, frames, size, stride, c, count, codes, scales):  # type: ignore[no-untyped-def]
    rows, number = count * (size // (stride * CHANNELS)), len(frames) // (STREAMS * size)
    row, segment = stride * CHANNELS, STREAMS * size
    product(frames, 0, row, number, segment, PATCH, m.weight, m.bias, c, rows)


def _by_integers(m, frames, size, stride, c, count, codes, scales):  # type: ignore[no-untyped-def]
    _quantize(m, frames, size, count, codes, scales, size // (stride * CHANNELS))
    rows, segment = count * (size // (stride * CHANNELS)), STREAMS * size
    xs, hs = m.inputs // PATCH, m.states // PATCH
    integer_product(codes, stride * CHANNELS, xs, hs, segment, scales, m, c, rows)


@uncounted()
def _quantize(
    m: QuantizedMatrix, frames: Array, size: int, count: int, codes: Array, scales: Array, rows: int
) -> None:
    """Store streams' frames as integers, each stream's rectified ones by the largest of them."""
    xs, hs, some = m.inputs // PATCH, m.states // PATCH, size - 2 * CHANNELS
    for r in range(count):
        start, maximum = r * size + CHANNELS, np.float32(0)
        for k in range(xs):
            maximum = max(maximum, largest(frames, start + k * STREAMS * size, some))
        for k in range(xs):
            at = start + k * STREAMS * size
            quantize_inputs(frames, at, codes, at, some, maximum)
        for k in range(xs, xs + hs):
            at = start + k * STREAMS * size
            quantize_states(frames, at, codes, at, some)
        scales[r * rows : (r + 1) * rows] = maximum / np.float32(MAX_INPUT)
