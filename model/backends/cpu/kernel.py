"""The step of many streams as one compiled function, which runs without Python's lock.

Functions whose sums may be reordered (`fastmath`) are inlined by force. Others are called by name,
and in the process that compiles them the name stands for a compilation of its own, in another
order: its results would differ in the last bits from those of all processes that follow.
"""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numba

from cortado.model.backends.cpu import decoder, encoder, features, search
from cortado.model.backends.cpu.layout import (
    STREAMS,
    Array,
    Convolutions,
    DecoderWeights,
    FeatureWeights,
    Layer,
    Pool,
    Scratch,
    State,
)
from cortado.model.compiled.product import begin, end
from cortado.model.compiled.vectors import claimed
from cortado.model.search.beam import Beam, Candidates, Hypotheses

MODEL = Path(__file__).resolve().parents[2]
COMPILED = (  # modules of `cortado.model` whose functions are compiled into a step
    "compiled.functions",
    "compiled.vectors",
    "compiled.tiles",
    "compiled.product",
    "compiled.integers",
    "backends.blank",
    "backends.cpu.gates",
    "backends.cpu.layout",
    "backends.cpu.convolution",
    "backends.cpu.features",
    "backends.cpu.encoder",
    "backends.cpu.decoder",
    "backends.cpu.search",
    "backends.cpu.kernel",
    "features.framing",
    "search.beam",
    "search.language_model",
)


def _sources() -> str:
    """Return a digest of all sources that are compiled into a step."""
    paths = (MODEL / f"{name.replace('.', '/')}.py" for name in COMPILED)
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def _compiled(sources: str, searched: bool) -> Callable[..., None]:
    """Return the kernel of a step, by the search or by the greedy scan.

    It alone is cached, with all that it calls inside. The cache knows a function by its file and
    by the values that it encloses, not by what it calls: so it encloses a digest of the sources.
    """

    @numba.njit(cache=True, nogil=True)
    def run(
        samples: Array,
        rows: Array,
        state: State,
        hypotheses: Hypotheses,
        feature_weights: FeatureWeights,
        convolutions: Convolutions,
        layers: tuple[Layer, ...],
        decoder_weights: DecoderWeights,
        t: Scratch,
        candidates: Candidates,
        pool: Pool,
        symbols: Array,
        late: Array,
        cap: int,
        beam: Beam,
        size: int,
        counter: Array,
    ) -> None:
        """Step the streams in `rows`, a tile of `size` after the other.

        Set (R, n) symbols, -1 for none, and how many frames late each is.

        Threads that call this with one `counter`, (1,) int64 from 0 on, share out the tiles.
        """
        assert sources  # enclosed
        begin(convolutions.conv1.weight)
        while True:
            start = size * claimed(counter)
            if start >= len(rows):
                break
            tile = rows[start : start + size]
            for group in range(0, len(tile), STREAMS):
                few = tile[group : group + STREAMS]
                heard = samples[start + group : start + group + len(few)]
                features.step(heard, few, state, feature_weights, t)
                encoder.convolve(few, group, state, convolutions, t)
            for number in range(len(layers)):
                encoder.recur(number, tile, state, layers[number], t)
            last = start + len(tile)
            written = symbols[start:last]
            if searched:
                search.step(
                    tile,
                    state,
                    hypotheses,
                    decoder_weights,
                    t,
                    candidates,
                    pool,
                    written,
                    late[start:last],
                    cap,
                    beam,
                )
            else:
                decoder.step(tile, state, decoder_weights, t, pool, written, cap)
        end(convolutions.conv1.weight)

    return run


@cache
def kernel(searched: bool) -> Callable[..., None]:
    """Return the step by the search or by the greedy scan; the other one need not be compiled."""
    return _compiled(_sources(), searched)
