"""The time of attention alone in decoding (Chiu & Raffel 2018, appendix B).

Random decoder states attend to random frames, both of width 256; T = U. Each frame is a stop with
probability 1/2, so that stops advance by one frame a symbol.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cortado.clients.bench.attention.kernels import Array, mocha, soft
from cortado.model.progress import Progress

WIDTH = 256  # of frames and of decoder states
LENGTHS = (*range(10, 101, 10), 200, 400, 800)  # T = U
CHUNKS = (1, 2, 4, 8)
ENERGIES = ("additive", "dot")
DRAWS = 10  # that the trials are shared out over


@dataclass(frozen=True)
class Curve:
    """One attention's times."""

    attention: str
    energy: str
    lengths: tuple[int, ...]  # T = U
    trials: int  # that each time is the mean of
    microseconds: tuple[float, ...]  # of all U contexts of an utterance

    def at(self, length: int) -> float:
        """Return the time at T = U = `length` in microseconds."""
        return self.microseconds[self.lengths.index(length)]

    @property
    def exponent(self) -> float:
        """The slope of log time over log length, by least squares."""
        logs = np.log(self.lengths), np.log(self.microseconds)
        return float(np.polyfit(*logs, 1)[0]) if len(self.lengths) > 1 else math.nan


@dataclass(frozen=True)
class Drawn:
    """What one trial attends with and to; (T, d) or (U, d), but the direction (d,)."""

    queries: Array
    keys: Array
    direction: Array
    chunk_queries: Array
    chunk_keys: Array
    values: Array
    contexts: Array


def drawn(length: int, seed: int, additive: bool) -> Drawn:
    """Return random states and frames, of which any state stops at any frame with probability 1/2.

    Where energies are dot products that is so for uniform numbers, as in the papers' benchmark.
    Additive energies of such numbers have frames where nearly all states stop and the scan stays;
    with the signs below e = 2 sum_k v_k s_k (f(h_k) - f(h'_k)), where s_k is 1 or -1.
    """
    rng = np.random.default_rng([length, seed])

    def uniform(*shape: int) -> Array:
        return rng.uniform(-1, 1, shape).astype(np.float32)

    if additive:
        s, (h, other) = np.sign(uniform(length, WIDTH // 4)), uniform(2, length, WIDTH // 4)
        v = uniform(WIDTH // 4)
        queries, keys = np.hstack([s, s, -s, -s]), np.hstack([h, other, h, other])
        direction = np.hstack([v, -v, -v, v])
    else:
        queries, keys, direction = uniform(length, WIDTH), uniform(length, WIDTH), uniform(WIDTH)
    chunk_queries, chunk_keys, values, contexts = uniform(4, length, WIDTH)
    return Drawn(queries, keys, direction, chunk_queries, chunk_keys, values, contexts)


def name(chunk: int | None) -> str:
    """Return what an attention is called; a chunk of None is soft attention."""
    return {None: "soft", 1: "monotonic"}.get(chunk, f"MoChA w = {chunk}")


def attend(chunk: int | None, additive: bool, data: Drawn, repeats: int) -> None:
    """Compute all contexts of `data`, `repeats` times over."""
    if chunk is None:
        soft(data.queries, data.keys, data.direction, data.values, additive, repeats, data.contexts)
        return
    mocha(
        data.queries,
        data.keys,
        data.direction,
        data.chunk_queries,
        data.chunk_keys,
        data.values,
        chunk,
        additive,
        repeats,
        data.contexts,
    )


def seconds(chunk: int | None, additive: bool, length: int, trials: int) -> float:
    """Return the mean processor time of one utterance, which other processes do not lengthen."""
    draws = min(DRAWS, trials)
    spent = 0.0
    for seed in range(draws):
        data = drawn(length, seed, additive)
        attend(chunk, additive, data, 1)
        started = time.thread_time()
        attend(chunk, additive, data, trials // draws)
        spent += time.thread_time() - started
    return spent / (trials // draws * draws)


def measure(progress: Progress, trials: int = 100, lengths: Sequence[int] = LENGTHS) -> list[Curve]:
    """Return the times of each attention with each energy, on one thread.

    Raises: ValueError for no trial, or no length.
    """
    if trials < 1 or not lengths:
        raise ValueError(f"expected a trial and a length or more, got {trials} and {lengths}")
    curves, done = [], 0
    chunks: tuple[int | None, ...] = (None, *CHUNKS)
    total = len(ENERGIES) * len(chunks) * len(lengths)
    for energy in ENERGIES:
        for chunk in chunks:
            times = []
            for length in lengths:
                progress(f"{name(chunk)}, {energy}, T = U = {length}", done, total)
                times.append(1e6 * seconds(chunk, energy == "additive", length, trials))
                done += 1
            taken = trials // min(DRAWS, trials) * min(DRAWS, trials)
            curves.append(Curve(name(chunk), energy, tuple(lengths), taken, tuple(times)))
    progress("decoding", total, total)
    return curves
