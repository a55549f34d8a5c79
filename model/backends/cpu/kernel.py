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
    TILE,
    Convolutions,
    DecoderWeights,
    FeatureWeights,
    Layer,
    NewStates,
    Scratch,
    Shares,
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
        shares: Shares,
    ) -> None:
        """Step the streams in `rows`, in tiles of `size`, with other threads that call this.

        Set (R, n) symbols, -1 for none, how many frames late each is, and its confidence.
        """
        begin(convolutions.conv1.weight)
        width, count = len(decoder_weights.frames.bias), len(rows)
        together, tiles = TILE // beam.width, -(-count // size)
        helped = 0
        while helped < tiles:
            own = fetch_and_increment(shares.tiles)
            if own < tiles:
                start = own * size
                tile = rows[start : start + size]
                of_frames = shares.frames[start * width :]
                for group in range(0, len(tile), STREAMS):
                    few = tile[group : group + STREAMS]
                    heard = samples[start + group : start + group + len(few)]
                    features.step(heard, few, state, feature_weights, t)
                    encoder.convolve(few, group, state, convolutions, t)
                for number in range(len(layers)):
                    encoder.recur(number, tile, state, layers[number], t)
                if not searched:
                    written = symbols[start : start + size]
                    decoder.step(
                        tile, state, decoder_weights, t, of_frames, new_states, written, cap
                    )
                    continue
                decoder.store_frames(tile, state, decoder_weights, t, of_frames)
                fetch_and_increment(shares.encoded[own : own + 1])
            else:
                own, helped = helped, helped + 1  # another's, if that is not at its encoder still
            while searched and shares.encoded[own]:
                first = own * size + together * fetch_and_increment(shares.groups[own : own + 1])
                last = min(first + together, own * size + size, count)
                if first >= last:
                    break
                search.step(
                    rows[first:last],
                    shares.frames[first * width : last * width].reshape(last - first, width),
                    state,
                    hypotheses,
                    decoder_weights,
                    t,
                    candidates,
                    new_states,
                    symbols[first:last],
                    late[first:last],
                    confidence[first:last],
                    cap,
                    beam,
                )
        end(convolutions.conv1.weight)

    return run
