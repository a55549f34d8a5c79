"""The step of many streams as one compiled function, which runs without Python's lock.

Functions whose sums may be reordered (`fastmath`) are inlined by force. Others are called by name,
and in the process that compiles them the name stands for a compilation of its own, in another
order: its results would differ in the last bits from those of all processes that follow.
"""

from collections.abc import Callable
from functools import cache

from numba import types

from cortado.model.arrays import Array
from cortado.model.backends.cpu import decoder, encoder, features, search
from cortado.model.backends.cpu.layout import (
    STREAMS,
    Convolutions,
    DecoderWeights,
    FeatureWeights,
    Layer,
    NewStates,
    Scratch,
    State,
)
from cortado.model.compiled.ahead import Part, Signature
from cortado.model.compiled.jit import uncounted
from cortado.model.compiled.product import begin, end
from cortado.model.compiled.vectors import fetch_and_increment
from cortado.model.search import beam as search_beam
from cortado.model.search.commit import commit
from cortado.model.search.hearing import begin_frame
from cortado.model.search.hypotheses import Candidates, Hypotheses
from cortado.model.search.lexicon_search import follow
from cortado.model.search.settings import Beam


def slow_parts(of_run: Signature) -> list[Part]:
    """Return what takes half of the time to compile, given the types of `run`'s arguments.

    Those are parts of the search, and the alternatives of words, which a server needs as well.
    """
    _, rows, _, hypotheses, *_, candidates, new, symbols, late, confidence, _, beam, _, _ = of_run
    fields = dict(zip(new.fields, new.types, strict=True))
    words = dict(zip(beam.fields, beam.types, strict=True))["words"]
    whole, floats, integers = types.int64, types.float32, types.int32
    heard, begun, state = floats[:, :], floats[:, ::1], integers[:, ::1]
    return [
        (begin_frame, (rows, heard, beam, hypotheses, candidates)),
        (search_beam.extend, (whole, fields["logits"], whole, whole, beam, candidates)),
        (commit, (rows, beam, hypotheses, candidates, symbols, late, confidence)),
        (
            follow,
            (
                *(rows, symbols, late, types.boolean[::1], floats[:, :, ::1], words),
                *(begun, state, integers[:, :, ::1], floats[:, :, ::1]),
            ),
        ),
    ]


@cache
def kernel(searched: bool) -> Callable[..., None]:
    """Return the step by the search or by the greedy scan; the other one need not be compiled."""

    @uncounted(cached=True, parts=slow_parts if searched else None)
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
        new_states: NewStates,
        symbols: Array,
        late: Array,
        confidence: Array,
        cap: int,
        beam: Beam,
        size: int,
        counter: Array,
    ) -> None:
        """Step the streams in `rows`, a tile of `size` after the other.

        Set (R, n) symbols, -1 for none, how many frames late each is, and its confidence.

        Threads that call this with one `counter`, (1,) int64 from 0 on, share out the tiles.
        """
        begin(convolutions.conv1.weight)
        while True:
            start = size * fetch_and_increment(counter)
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
                    new_states,
                    written,
                    late[start:last],
                    confidence[start:last],
                    cap,
                    beam,
                )
            else:
                decoder.step(tile, state, decoder_weights, t, new_states, written, cap)
        end(convolutions.conv1.weight)

    return run
