"""Types of arrays, and named tuples of arrays that are made as their fields state them.

A field is stated as `Annotated[Array, F32, "S", "4 D"]`: its type and its dimensions.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from math import prod
from typing import Any, TypeVar, get_type_hints

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Samples = NDArray[np.float32]  # (N,) or (R, N) in [-1, 1], at 16 kHz if no rate is beside
Rows = NDArray[np.int64]  # (R,) which streams

MAX_CODE = 127  # steps of a row in one of its numbers
LOUDEST = 8.0  # times full scale; lossy codecs overshoot a little, corrupt floats by far
Arrays = TypeVar("Arrays", bound=tuple[Any, ...])


def as_samples(given: Any) -> Samples:
    """Return (N,) floats in [-1, 1) as samples of 32 bits.

    Raises: ValueError where they are none, or far beyond full scale.
    """
    expected = "expected samples (N,) as floats in [-1, 1)"
    if not isinstance(given, np.ndarray):
        raise ValueError(f"{expected}, got {type(given).__name__}")
    if given.ndim != 1 or not np.issubdtype(given.dtype, np.floating):
        raise ValueError(f"{expected}, got {given.shape} {given.dtype}")
    loudest = np.abs(given).max(initial=0)
    if not loudest <= LOUDEST:  # so written, NaN is caught too
        raise ValueError(f"{expected}, got {loudest:g}")
    return given.astype(np.float32, copy=False)


def row_codes(matrix: Array, kind: type[np.floating[Any]] = np.float32) -> tuple[Array, Array]:
    """Return a matrix in bytes, each row as multiples of a step of its own; and those steps.

    Args:
        matrix: (N, K) float32.
        kind: of the steps.
    """
    steps = (np.abs(matrix).max(1) / MAX_CODE).astype(kind)
    size = steps.astype(np.float32)
    codes = np.rint(matrix / np.where(size > 0, size, 1)[:, None])
    return np.clip(codes, -MAX_CODE, MAX_CODE).astype(np.int8), steps


def buffers(parts: Iterable[Any]) -> Iterator[bytes]:
    """Yield the bytes of all numbers in nested tuples."""
    for part in parts:
        if isinstance(part, tuple):
            yield from buffers(part)
        else:
            yield np.asarray(part).tobytes()


def zeros(
    kind: type[Arrays],
    sizes: Mapping[str, int],
    make: Callable[..., Array] = lambda dtype, *shape: np.zeros(shape, dtype),
    **others: Any,
) -> Arrays:
    """Return a named tuple of arrays of zeros.

    Args:
        kind: its class, whose fields state a type and dimensions: numbers, or products of numbers
            and named sizes.
        sizes: by their names.
        make: returns zeros of a type and a shape.
        others: fields that are no zeros; types that have names.
    """
    found = []
    for name, (dtype, *dimensions) in _fields(kind).items():
        shape = (prod(_size(one, sizes) for one in str(each).split()) for each in dimensions)
        found.append(others[name] if name in others else make(others.get(dtype, dtype), *shape))
    return kind(*found)


def has_dimension(kind: type[tuple[Any, ...]], name: str) -> list[bool]:
    """Return which fields of a named tuple of arrays have a dimension of that name."""
    return [name in dimensions for _, *dimensions in _fields(kind).values()]


@cache
def _fields(kind: type[Any]) -> dict[str, tuple[Any, ...]]:
    hints = get_type_hints(kind, include_extras=True)
    return {name: getattr(hint, "__metadata__", (None,)) for name, hint in hints.items()}


def _size(factor: str, sizes: Mapping[str, int]) -> int:
    return int(factor) if factor.isdecimal() else sizes[factor]
