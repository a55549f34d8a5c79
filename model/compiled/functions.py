"""Parts of the compiled kernels: tanh, the logistic function, exp and log, which vectorise.

Their results have the same bits with any C library.

A kernel that uses them is compiled with `fastmath=FAST, error_model="numpy"`: LLVM vectorises it
only if sums may be reordered and a division by zero is no exception.
"""

import math
from typing import Any

import numba
import numpy as np
from numba.extending import overload

FAST = {"reassoc", "contract", "arcp", "nsz"}


def _floats(*numbers: float) -> tuple[np.float32, ...]:
    return tuple(map(np.float32, numbers))


# tanh as a ratio of polynomials, x p(x^2) / q(x^2), good to 4 ulp (the coefficients of Eigen's
# ptanh_float)
TANH_LIMIT = np.float32(7.90531110763549805)
TANH_NUMERATOR = _floats(
    -2.76076847742355e-16,
    2.00018790482477e-13,
    -8.60467152213735e-11,
    5.12229709037114e-08,
    1.48572235717979e-05,
    6.37261928875436e-04,
    4.89352455891786e-03,
)
TANH_DENOMINATOR = _floats(
    1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03
)


def tanh(x: Any) -> Any:
    """Return the hyperbolic tangent, of a float32 to 4 ulp, of a float64 to the last."""
    return math.tanh(x)


@overload(tanh, inline="always")
def _tanh(x):  # type: ignore[no-untyped-def]  # numba compares annotations, too
    if x != numba.float32:
        return lambda x: math.tanh(x)

    a, b, c, d, e, f, g = TANH_NUMERATOR
    h, i, j, k = TANH_DENOMINATOR

    def ratio(x):  # type: ignore[no-untyped-def]
        x = min(max(x, -TANH_LIMIT), TANH_LIMIT)
        s = x * x
        p = (((((a * s + b) * s + c) * s + d) * s + e) * s + f) * s + g
        q = ((h * s + i) * s + j) * s + k
        return x * p / q

    return ratio


def sigmoid(x: Any) -> Any:
    """Return 1 / (1 + exp(-x))."""
    return 0.5 + 0.5 * math.tanh(0.5 * x)


@overload(sigmoid, inline="always")
def _sigmoid(x):  # type: ignore[no-untyped-def]
    half = np.float32(0.5) if x == numba.float32 else 0.5
    return lambda x: half + half * tanh(half * x)


# 2**f for f in [-0.5, 0.5], good to 1 ulp (the coefficients of Cephes' exp2f)
_EXP2 = _floats(
    1.535336188319500e-4,
    1.339887440266574e-3,
    9.618437357674640e-3,
    5.550332471162809e-2,
    2.402264791363012e-1,
    6.931472028550421e-1,
    1.0,
)
_LOG2_E = np.float32(1.44269504088896341)
_MIN_EXPONENT = np.float32(-126)  # exponent of the smallest normal float32


def exp(x: Any) -> Any:
    """Return e**x for x <= 0, of a float32 to 1e-7 and with 0 for what is below 2**-126."""
    return math.exp(x)


@overload(exp, inline="always")
def _exp(x):  # type: ignore[no-untyped-def]
    if x != numba.float32:
        return lambda x: math.exp(x)

    a, b, c, d, e, g, h = _EXP2

    def power(x):  # type: ignore[no-untyped-def]
        y = max(x * _LOG2_E, _MIN_EXPONENT)
        whole = np.floor(y + np.float32(0.5))
        f = y - whole
        p = (((((a * f + b) * f + c) * f + d) * f + e) * f + g) * f + h
        bits = np.int32((np.int32(whole) + 127) << 23)  # a float32 of that exponent
        return p * bits.view(np.float32) if y > _MIN_EXPONENT else np.float32(0)

    return power


# log(1 + x) for 1 + x in [0.7, 1.4], to an ulp (the coefficients of Cephes' logf)
_LOG = _floats(
    7.0376836292e-2,
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
)
_LN2 = np.float32(math.log(2))
_SQRT2 = np.float32(math.sqrt(2))


def log(x: Any) -> Any:
    """Return the natural logarithm, of a normal positive float32 to 2 ulp."""
    return math.log(x)


@overload(log)  # LLVM inlines it; numba itself stumbles over its conditions
def _log(x):  # type: ignore[no-untyped-def]
    if x != numba.float32:
        return lambda x: math.log(x)
    half, one = np.float32(0.5), np.float32(1)
    a, b, c, d, e, g, h, i, j = _LOG

    def logarithm(x):  # type: ignore[no-untyped-def]
        bits = np.float32(x).view(np.int32)
        exponent = np.float32((bits >> 23) - 127)
        mantissa = np.int32((bits & 0x7FFFFF) | 0x3F800000).view(np.float32)
        high = mantissa > _SQRT2
        exponent = exponent + one if high else exponent
        f = (mantissa * half if high else mantissa) - one
        s = f * f
        p = (((((((a * f + b) * f + c) * f + d) * f + e) * f + g) * f + h) * f + i) * f + j
        return exponent * _LN2 + (f - half * s + p * f * s)

    return logarithm
