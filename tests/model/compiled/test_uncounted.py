"""Arrays without owners are the same memory, and leave the count of their references alone."""

import sys
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from cortado.model.compiled.uncounted import uncounted

Floats = NDArray[np.float32]


class Inner(NamedTuple):
    """Arrays of one kind."""

    a: Floats
    b: Floats


class Outer(NamedTuple):
    """Arrays and others, nested."""

    inner: Inner
    number: int
    rows: NDArray[np.int64]


@numba.njit
def _held(rows: Any) -> Any:
    return rows[1:]


@numba.njit
def written(outer: Any, keep: bool) -> Any:
    if not keep:
        outer = uncounted(outer)
    for n in outer.rows:
        view = _held(outer.inner.a[n])
        view[0] += outer.number * outer.inner.b[n, 0]
    return outer.inner.a.sum()


def test_memory_and_numbers_are_the_same() -> None:
    found = []
    for keep in (True, False):
        inner = Inner(np.ones((3, 4), np.float32), np.full((3, 2), 2, np.float32))
        outer = Outer(inner, 5, np.arange(3))
        counts = [sys.getrefcount(part) for part in (*inner, outer.rows)]
        found.append((written(outer, keep), inner.a.tobytes()))
        assert [sys.getrefcount(part) for part in (*inner, outer.rows)] == counts
    assert found[0] == found[1]
