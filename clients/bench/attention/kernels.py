"""Attention alone, compiled: all contexts of an utterance by soft attention and by MoChA.

Both are given the same care: vectorised energies, exponentials and sums, no allocation, one call an
utterance. Projections of frames and decoder states are left out of both, as in the papers: they
are linear in T and U whatever the attention.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cortado.model.compiled.functions import FAST, exp, tanh
from cortado.model.compiled.jit import cached_njit

Array = NDArray[np.float32]


@cached_njit(fastmath=FAST, error_model="numpy", inline="always")
def _energy(query: Array, key: Array, direction: Array, additive: bool) -> Any:
    """Return v' tanh(s + h), or s' h."""
    total = np.float32(0)
    if additive:
        for k in range(len(query)):
            total += direction[k] * tanh(query[k] + key[k])
    else:
        for k in range(len(query)):
            total += query[k] * key[k]
    return total


@cached_njit(fastmath=FAST, error_model="numpy")
def _attend(energies: Array, values: Array, context: Array) -> None:
    """Write the sum of values (n, d), weighed by the softmax of n energies, which are used up."""
    top = energies[0]
    for j in range(len(energies)):
        top = max(top, energies[j])
    total = np.float32(0)
    for j in range(len(energies)):
        energies[j] = exp(energies[j] - top)
        total += energies[j]
    for k in range(len(context)):
        context[k] = 0
    pairs = len(energies) // 2 * 2
    for j in range(0, pairs, 2):
        one, two = energies[j] / total, energies[j + 1] / total
        for k in range(len(context)):
            context[k] += one * values[j, k] + two * values[j + 1, k]
    if pairs < len(energies):
        one = energies[pairs] / total
        for k in range(len(context)):
            context[k] += one * values[pairs, k]


@cached_njit(fastmath=FAST, error_model="numpy")
def soft(
    queries: Array,
    keys: Array,
    direction: Array,
    values: Array,
    additive: bool,
    repeats: int,
    contexts: Array,
) -> None:
    """Write contexts (U, d) of queries (U, d) over frames (T, d), `repeats` times over."""
    energies = np.empty(len(keys), np.float32)
    for _ in range(repeats):
        for i in range(len(queries)):
            for j in range(len(keys)):
                energies[j] = _energy(queries[i], keys[j], direction, additive)
            _attend(energies, values, contexts[i])


@cached_njit(fastmath=FAST, error_model="numpy")
def mocha(
    queries: Array,
    keys: Array,
    direction: Array,
    chunk_queries: Array,
    chunk_keys: Array,
    values: Array,
    chunk: int,
    additive: bool,
    repeats: int,
    contexts: Array,
) -> int:
    """Write contexts (U, d) as `soft` does and return where the last scan stopped.

    A chunk of 1 is hard monotonic attention. As in the papers' benchmark a scan that reaches the
    last frame stops there, so that every symbol has a context to be computed.
    """
    energies = np.empty(chunk, np.float32)
    j = 0
    for _ in range(repeats):
        j = 0
        for i in range(len(queries)):
            while j < len(keys) - 1 and _energy(queries[i], keys[j], direction, additive) < 0:
                j += 1
            if chunk == 1:
                for k in range(contexts.shape[1]):
                    contexts[i, k] = values[j, k]
                continue
            first = max(0, j - chunk + 1)
            for n in range(first, j + 1):
                energies[n - first] = _energy(chunk_queries[i], chunk_keys[n], direction, additive)
            _attend(energies[: j + 1 - first], values[first : j + 1], contexts[i])
    return j
