"""Which candidates of a frame survive it as a stream's hypotheses, compiled."""

import numpy as np

from cortado.model.arrays import Array
from cortado.model.compiled.functions import exp, log
from cortado.model.compiled.jit import inlined, uncounted
from cortado.model.search.hypotheses import (
    NOTHING,
    Candidates,
    Hypotheses,
    copy,
    copy_rows,
    place,
)
from cortado.model.search.settings import Beam

ONE = np.float32(1)


@uncounted(cached=True)
def prune(rows: Array, beam: Beam, h: Hypotheses, e: Candidates) -> int:
    """Keep the best hypotheses of each stream; return how many decoder states must be copied.

    `e.moves` lists the slots to copy from. The state of a hypothesis that wrote nothing stays.
    """
    moves = 0
    for r in range(len(rows)):
        _merge(e.sizes[r], e.passed_scores[r], e.decoded[r], e.hashes[r])
        fresh = _keep(r, rows[r], moves, beam, h, e)
        _move_in(r, rows[r], e.moves[moves : moves + fresh], h, e)
        moves += fresh
        h.clock[rows[r], 0] += 1
    return moves


@uncounted(cached=True)
def _merge(count: int, passed: Array, decoded: Array, hashes: Array) -> None:
    """Merge candidates of equal text into the likelier one, summing their probabilities.

    What counts beside the decoder hangs on the text alone, so its own part gains as much.
    """
    for a in range(1, count):
        for b in range(a):
            if hashes[a] != hashes[b] or passed[b] == NOTHING:
                continue
            high, low = max(passed[a], passed[b]), min(passed[a], passed[b])
            both = high + log(ONE + exp(low - high))
            if passed[a] > passed[b]:
                passed[a], passed[b] = both, NOTHING
                decoded[a] += both - high
            else:
                passed[a], passed[b] = NOTHING, both
                decoded[b] += both - high
                break


@inlined
def _keep(r: int, row: int, moves: int, beam: Beam, h: Hypotheses, e: Candidates) -> int:
    """Score the hypotheses that survive; return how many of them have written.

    Those are in `e.moves`, and their symbols in the working copies: they may take the place of
    those that they come from.
    """
    passed, origins, scores = e.passed_scores[r], e.origins[r], h.scores[row]
    first, lengths, now = h.first[row, 0], h.lengths[row], h.clock[row, 0]
    width, ring = h.symbols.shape[1:]
    scores[:] = NOTHING
    best, level, fresh = NOTHING, np.float32(0), 0
    for n in range(width):
        chosen = _likeliest(passed, e.sizes[r])
        score = passed[chosen]
        if n == 0:
            best, level = score, e.decoded[r, chosen]
        if score == NOTHING or score < best - np.float32(beam.pruning):
            break
        passed[chosen] = NOTHING
        base = origins[chosen]
        if e.slots[r, chosen] < 0:
            scores[base], h.decoded[row, base] = score - best, e.decoded[r, chosen] - level
            continue
        e.scores[r, chosen], e.decoded[r, chosen] = score - best, e.decoded[r, chosen] - level
        symbols, frames = e.symbols[fresh], e.frames[fresh]
        _copy_ring(first, lengths[base], h.symbols[row, base], h.frames[row, base], symbols, frames)
        for a in range(e.written_count[r, chosen]):
            at = place(first, lengths[base] + a, ring)
            symbols[at], frames[at] = e.written[r, chosen, a], now
        e.moves[moves + fresh, 0], e.moves[moves + fresh, 1] = r, chosen
        fresh += 1
    return fresh


@uncounted(forceinline=True)
def _likeliest(scores: Array, count: int) -> int:
    chosen = 0
    for k in range(1, count):
        if scores[k] > scores[chosen]:
            chosen = k
    return chosen


@uncounted(forceinline=True)
def _copy_ring(
    first: int, count: int, symbols: Array, frames: Array, to_symbols: Array, to_frames: Array
) -> None:
    """Copy `count` symbols and their frames from place `first` of rings (N,) on."""
    for i in range(count):
        at = place(first, i, len(symbols))
        to_symbols[at], to_frames[at] = symbols[at], frames[at]


@inlined
def _move_in(r: int, row: int, moves: Array, h: Hypotheses, e: Candidates) -> None:
    """Give the hypotheses of (n, 3) moves the places that are free; complete the moves."""
    scores, lengths, first = h.scores[row], h.lengths[row], h.first[row, 0]
    for n in range(len(moves)):  # before the first length is overwritten
        chosen = moves[n, 1]
        moves[n, 2] = lengths[e.origins[r, chosen]] + e.written_count[r, chosen]
    free = 0
    for n in range(len(moves)):
        while scores[free] != NOTHING:
            free += 1
        chosen, lengths[free] = moves[n, 1], moves[n, 2]
        scores[free], h.hashes[row, free] = e.scores[r, chosen], e.hashes[r, chosen]
        h.decoded[row, free] = e.decoded[r, chosen]
        h.phrase[row, free] = e.phrase[r, chosen]
        copy(e.words[r, chosen], h.words[row, free])
        copy(e.earlier[r, chosen], h.earlier[row, free])
        copy(e.last[r, chosen], h.last[row, free])
        copy(e.begun[r, chosen], h.begun[row, free])
        copy(e.reached[r, chosen], h.reached[row, free])
        copy_rows(e.forward[r, chosen], h.forward[row, free])
        symbols, frames = h.symbols[row, free], h.frames[row, free]
        _copy_ring(first, lengths[free], e.symbols[n], e.frames[n], symbols, frames)
        moves[n, 1], moves[n, 2] = free, e.slots[r, chosen]
