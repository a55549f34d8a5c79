"""Beam search over a hard monotonic attention, frame by frame, in constant memory.

The greedy scan stops at a frame where p >= 0.5 and writes the most probable symbol; it cannot make
up for a mistake. Here each of a stream's K hypotheses branches at every frame: it stops there or
moves on, and where it stops it writes any symbol. The K best survive the frame. A hypothesis'
probability is the product of those of its stops, of the frames it moved past and of its symbols,
which is what training maximises.

A symbol is committed, and never revised, as soon as hypotheses that hold a share `agreement` of the
total probability agree on it. The best hypothesis' symbols are committed after `max_wait` frames
even without agreement. Hypotheses that contradict a committed symbol are dropped, and so are those
with a symbol that the best one still lacks after `rival_wait` frames. So a stream's state is
bounded, no symbol waits longer than that, and what is committed depends on the audio alone.

With a language model, a symbol's score includes the words that it may become (language_model.py).

This is the bookkeeping, compiled. A backend computes the decoder's energies and logits in rounds:

    scanning = begin_frame(...)               # candidates that need their energy at the frame
    for each symbol that may be written at one frame, and once more:
        stopping = stop(scanning, energies)   # candidates that stop, and need their logits
        scanning = extend(stopping, logits)   # the best candidates with one symbol more
    prune(...)                                # the hypotheses that survive
    commit(...)                               # the symbols that are committed now
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from cortado.model.compiled.functions import exp, log
from cortado.model.emission import FLUSH_STEPS, Emissions
from cortado.model.features.framing import STEP_SECONDS
from cortado.model.search import language_model as language
from cortado.model.search.language_model import Language

Array = NDArray[Any]

MAX_WIDTH, MAX_WAIT_MS = 32, 2000  # hypotheses; milliseconds that a symbol may wait to be committed

_NOTHING, _ONE = np.float32(-np.inf), np.float32(1)
_MULTIPLIER = np.int64(6364136223846793005)  # of a text's hash (Knuth's MMIX)


class Beam(NamedTuple):
    """The settings of a beam search."""

    width: int = 8  # hypotheses; 1 for the greedy scan, without a search
    max_wait: int = 7  # frames after which the best hypothesis' symbols are committed anyway
    rival_wait: int = 12  # frames after which those with a symbol more are dropped
    pruning: float = 3.5  # nats below the best hypothesis at which others are dropped
    min_stop_probability: float = 0.1  # a stop less probable than this is not tried
    agreement: float = 0.9  # share of the total probability that commits a symbol at once
    words: Language = language.NONE  # the language model

    @property
    def uses_language_model(self) -> bool:
        """Whether a language model scores the hypotheses."""
        return self.width > 1 and self.words.weight > 0


DEFAULT_BEAM = Beam()
GREEDY = Beam(width=1, max_wait=0, rival_wait=0)


def flush_steps(beam: Beam) -> int:
    """Return the steps of silence after the end of the input until all is committed."""
    return FLUSH_STEPS + beam.rival_wait


def beam_from_options(width: int | None, hold_ms: int | None, lm: str | None = None) -> Beam | None:
    """Return the search for a user's options --beam, --hold and --lm; None for the default.

    Raises:
        ValueError: a number of hypotheses outside 1 to MAX_WIDTH, a time outside 0 to MAX_WAIT_MS
            milliseconds, or a time or a language model for the greedy scan, which uses neither.
    """
    if width == 1 and lm not in (None, "none"):
        raise ValueError(f"expected a beam of 2 or more hypotheses with --lm {lm}, got {width}")
    if width == 1 and hold_ms is not None:
        raise ValueError(f"expected a beam of 2 or more hypotheses with --hold {hold_ms}, got 1")
    if width is None and hold_ms is None:
        return None
    if width is not None and not 1 <= width <= MAX_WIDTH:
        raise ValueError(f"expected a beam of 1 to {MAX_WIDTH} hypotheses, got {width}")
    if hold_ms is not None and not 0 <= hold_ms <= MAX_WAIT_MS:
        raise ValueError(f"expected --hold from 0 to {MAX_WAIT_MS} ms, got {hold_ms}")
    if width == 1:
        return GREEDY
    wait = DEFAULT_BEAM.max_wait if hold_ms is None else round(hold_ms / 1000 / STEP_SECONDS)
    return DEFAULT_BEAM._replace(
        width=width or DEFAULT_BEAM.width,
        max_wait=wait,
        rival_wait=max(wait, DEFAULT_BEAM.rival_wait),
    )


def search_name(backend: str, beam: Beam) -> str:
    """Return a backend's name with that of its search: "fast-fp32", "fast-fp32-beam8-lm"."""
    if beam.width == 1:
        return backend
    return f"{backend}-beam{beam.width}" + ("-lm" if beam.uses_language_model else "")


def search_identity(name: str, beam: Beam) -> bytes:
    """Return bytes that identify a backend and its search settings, for snapshots."""
    if beam.width == 1:
        return name.encode()
    numbers = repr((*beam[:-1], *beam.words[:5])).encode()
    return b"".join([name.encode(), numbers, *(part.tobytes() for part in beam.words[5:])])


def max_committed(beam: Beam, cap: int) -> int:
    """Return the most symbols that one step can commit, at most `cap` symbols a frame."""
    if beam.width == 1:
        return cap
    return cap * (beam.rival_wait + 1)  # of the hypothesis that becomes the best


class Hypotheses(NamedTuple):
    """K hypotheses of each of S streams, without their decoder states, which the backend keeps."""

    scores: Array  # (S, K) float32: nats below the best; -inf for no hypothesis
    hashes: Array  # (S, K) int64: of the whole text
    words: Array  # (S, K, 3) int32: language model state: tree node, the two last words
    lengths: Array  # (S, K) int32: number of uncommitted symbols
    symbols: Array  # (S, K, N) int16: uncommitted symbols, a ring buffer from `first` on
    frames: Array  # (S, K, N) int32: the frame of each
    first: Array  # (S, 1) int32: place of the oldest uncommitted symbol in the rings
    clock: Array  # (S, 1) int32: number of frames so far
    last_committed: Array  # (S, 1) int32: frame of the last committed symbol


class Candidates(NamedTuple):
    """Memory for one frame of R streams: the hypotheses before it, then those extended at it."""

    sizes: Array  # (R,) int64: number of candidates
    best: Array  # (R,) float32: the best score before the frame
    scores: Array  # (R, E) float32: nats, before stopping or moving on
    passed_scores: Array  # (R, E) float32: nats, after moving past the frame
    hashes: Array  # (R, E) int64
    words: Array  # (R, E, 3) int32
    origins: Array  # (R, E) int64: the hypothesis before the frame that it extends
    slots: Array  # (R, E) int64: slot of its decoder state; -1 for the state of its origin
    written_count: Array  # (R, E) int64: number of symbols written at this frame
    written: Array  # (R, E, C) int16: those symbols
    scanning: Array  # (R K, 2) int64: stream and candidate, of those that need an energy
    stopping: Array  # (R K, 2) int64: stream and candidate, of those that need logits
    stop_scores: Array  # (R K,) float32: nats of those, after the stop
    moves: Array  # (R K, 3) int64: stream, hypothesis, slot of its new decoder state
    symbols: Array  # (K, N) int16: working copy of a stream's symbols
    frames: Array  # (K, N) int32: and of their frames


def hypotheses(streams: int, beam: Beam, cap: int) -> Hypotheses:
    """Return hypotheses of streams without audio yet, for at most `cap` symbols a frame."""
    k, n = beam.width, max_committed(beam, cap)
    found = Hypotheses(
        scores=np.full((streams, k), _NOTHING),
        hashes=np.zeros((streams, k), np.int64),
        words=np.zeros((streams, k, 3), np.int32),
        lengths=np.zeros((streams, k), np.int32),
        symbols=np.zeros((streams, k, n), np.int16),
        frames=np.zeros((streams, k, n), np.int32),
        first=np.zeros((streams, 1), np.int32),
        clock=np.zeros((streams, 1), np.int32),
        last_committed=np.zeros((streams, 1), np.int32),
    )
    found.scores[:, 0] = 0
    return found


def candidates(streams: int, beam: Beam, cap: int) -> Candidates:
    """Return memory for a frame of so many streams, for at most `cap` symbols a frame."""
    k, n = beam.width, max_committed(beam, cap)
    each = (streams, k * (cap + 1))
    return Candidates(
        sizes=np.zeros(streams, np.int64),
        best=np.zeros(streams, np.float32),
        scores=np.zeros(each, np.float32),
        passed_scores=np.zeros(each, np.float32),
        hashes=np.zeros(each, np.int64),
        words=np.zeros((*each, 3), np.int32),
        origins=np.zeros(each, np.int64),
        slots=np.zeros(each, np.int64),
        written_count=np.zeros(each, np.int64),
        written=np.zeros((*each, cap), np.int16),
        scanning=np.zeros((streams * k, 2), np.int64),
        stopping=np.zeros((streams * k, 2), np.int64),
        stop_scores=np.zeros(streams * k, np.float32),
        moves=np.zeros((streams * k, 3), np.int64),
        symbols=np.zeros((k, n), np.int16),
        frames=np.zeros((k, n), np.int32),
    )


@numba.njit(cache=True, nogil=True)
def begin_frame(rows: Array, h: Hypotheses, e: Candidates) -> int:
    """Make candidates of the hypotheses of the streams in (R,) rows; return their number."""
    scanning = 0
    for r in range(len(rows)):
        row, count = rows[r], 0
        e.best[r] = _NOTHING
        for k in range(h.scores.shape[1]):
            score = h.scores[row, k]
            if score == _NOTHING:
                continue
            e.best[r] = max(e.best[r], score)
            e.scores[r, count], e.hashes[r, count] = score, h.hashes[row, k]
            e.words[r, count] = h.words[row, k]
            e.origins[r, count], e.slots[r, count], e.written_count[r, count] = k, -1, 0
            e.scanning[scanning, 0], e.scanning[scanning, 1] = r, count
            scanning, count = scanning + 1, count + 1
        e.sizes[r] = count
    return scanning


@numba.njit(cache=True, nogil=True)
def stop(scanning: int, energies: Array, more: bool, beam: Beam, e: Candidates) -> int:
    """Score stopping and moving on for all scanning candidates; return how many may stop.

    Args:
        scanning: number of scanning candidates.
        energies: (scanning,) the energy of each at the frame.
        more: whether another symbol may be written at the frame.
        beam: settings, of which the pruning and the least probability of a stop count.
        e: the frame's candidates.
    """
    stopping, floor = 0, log(np.float32(beam.min_stop_probability))
    for n in range(scanning):
        r, k = e.scanning[n]
        energy = energies[n]
        stop = min(energy, np.float32(0)) - log(_ONE + exp(-abs(energy)))
        e.passed_scores[r, k] = e.scores[r, k] + (stop - energy)
        score = e.scores[r, k] + stop
        if more and stop >= floor and score >= e.best[r] - np.float32(beam.pruning):
            e.stopping[stopping, 0], e.stopping[stopping, 1] = r, k
            e.stop_scores[stopping] = score
            stopping += 1
    return stopping


@numba.njit(nogil=True, forceinline=True)
def _normalise(logits: Array, score: np.float32) -> None:
    """Turn (V,) logits into log-probabilities in place, and add a score in nats."""
    most = logits[0]
    for v in range(1, len(logits)):
        most = max(most, logits[v])
    total = np.float32(0)
    for v in range(len(logits)):
        total += exp(logits[v] - most)
    less = score - most - log(total)
    for v in range(len(logits)):
        logits[v] += less


@numba.njit(nogil=True, forceinline=True)
def _add(
    r: int, parent: int, symbol: int, score: np.float32, slot: int, beam: Beam, e: Candidates
) -> None:
    """Add a candidate that writes one symbol more than candidate `parent`."""
    k, added = e.sizes[r], e.written_count[r, parent]
    e.sizes[r] = k + 1
    e.scores[r, k], e.origins[r, k], e.slots[r, k] = score, e.origins[r, parent], slot
    e.hashes[r, k] = (e.hashes[r, parent] + symbol + 1) * _MULTIPLIER
    for a in range(added):
        e.written[r, k, a] = e.written[r, parent, a]
    e.written[r, k, added], e.written_count[r, k] = symbol, added + 1
    if beam.words.weight > 0:
        node, before, last = e.words[r, parent]
        found = language.followed(beam.words, node, before, last, symbol)
        e.words[r, k, 0], e.words[r, k, 1], e.words[r, k, 2] = found


def _extending(source: str) -> Callable[..., int]:
    """Return the function `extend`, given a digest of the language model's source.

    numba caches a compiled function by its own file and its closure. The closure holds the digest,
    so that a change of the language model's code, which is compiled into it, compiles it anew.
    """

    @numba.njit(cache=True, nogil=True)
    def extend(
        stopping: int, logits: Array, vocabulary: int, slot: int, beam: Beam, e: Candidates
    ) -> int:
        """Add the `beam.width` best extensions of each stream by one symbol; return how many.

        Args:
            stopping: number of stopping candidates.
            logits: (stopping, V or more) of each; overwritten.
            vocabulary: V.
            slot: slot of the first one's decoder state; those of the others follow.
            beam: settings of the search.
            e: the frame's candidates.
        """
        assert source  # keeps the digest in the closure
        scanning, n = 0, 0
        while n < stopping:
            r, end = e.stopping[n, 0], n
            least = e.best[r] - np.float32(beam.pruning)
            while end < stopping and e.stopping[end, 0] == r:
                scores = logits[end, :vocabulary]
                _normalise(scores, e.stop_scores[end])
                if beam.words.weight > 0:
                    node, before, last = e.words[r, e.stopping[end, 1]]
                    language.weigh(beam.words, node, before, last, least, scores)
                end += 1
            for _ in range(beam.width):
                best, at, symbol = least, -1, 0
                for m in range(n, end):
                    for v in range(vocabulary):
                        if logits[m, v] > best:
                            best, at, symbol = logits[m, v], m, v
                if at < 0:
                    break
                logits[at, symbol] = _NOTHING
                _add(r, e.stopping[at, 1], symbol, best, slot + at, beam, e)
                e.scanning[scanning, 0], e.scanning[scanning, 1] = r, e.sizes[r] - 1
                scanning += 1
            n = end
        return scanning

    return extend


extend = _extending(hashlib.sha256(Path(language.__file__).read_bytes()).hexdigest())


@numba.njit(cache=True, nogil=True)
def prune(rows: Array, beam: Beam, h: Hypotheses, e: Candidates) -> int:
    """Keep the best hypotheses of each stream; return how many decoder states must be copied.

    `e.moves` lists the slots to copy from. The state of a hypothesis that wrote nothing stays.
    """
    moves = 0
    for r in range(len(rows)):
        _merge(e.sizes[r], e.passed_scores[r], e.hashes[r])
        moves = _prune_stream(r, rows[r], moves, beam, h, e)
        h.clock[rows[r], 0] += 1
    return moves


@numba.njit(cache=True, nogil=True)
def _merge(count: int, passed: Array, hashes: Array) -> None:
    """Merge candidates of equal text into the likelier one, summing their probabilities."""
    for a in range(1, count):
        for b in range(a):
            if hashes[a] != hashes[b] or passed[b] == _NOTHING:
                continue
            high, low = max(passed[a], passed[b]), min(passed[a], passed[b])
            both = high + log(_ONE + exp(low - high))
            if passed[a] > passed[b]:
                passed[a], passed[b] = both, _NOTHING
            else:
                passed[a], passed[b] = _NOTHING, both
                break


@numba.njit(cache=True, nogil=True)
def _prune_stream(r: int, row: int, moves: int, beam: Beam, h: Hypotheses, e: Candidates) -> int:
    width, ring = h.scores.shape[1], h.symbols.shape[2]
    old = h.lengths[row].copy()
    scores = h.scores[row]
    scores[:] = _NOTHING
    best, fresh = _NOTHING, 0
    for n in range(width):
        chosen = -1
        for k in range(e.sizes[r]):
            if chosen < 0 or e.passed_scores[r, k] > e.passed_scores[r, chosen]:
                chosen = k
        score = e.passed_scores[r, chosen]
        if n == 0:
            best = score
        if score == _NOTHING or score < best - np.float32(beam.pruning):
            break
        e.passed_scores[r, chosen] = _NOTHING
        if e.slots[r, chosen] < 0:
            scores[e.origins[r, chosen]] = score - best
            continue
        e.scores[r, chosen] = score - best
        base, length = e.origins[r, chosen], old[e.origins[r, chosen]]
        for i in range(length):
            at = (h.first[row, 0] + i) % ring
            e.symbols[fresh, at], e.frames[fresh, at] = (
                h.symbols[row, base, at],
                h.frames[row, base, at],
            )
        for a in range(e.written_count[r, chosen]):
            at = (h.first[row, 0] + length + a) % ring
            e.symbols[fresh, at] = e.written[r, chosen, a]
            e.frames[fresh, at] = h.clock[row, 0]
        e.moves[moves + fresh, 0], e.moves[moves + fresh, 1] = r, chosen
        fresh += 1
    free = 0
    for n in range(fresh):
        while scores[free] != _NOTHING:
            free += 1
        chosen = e.moves[moves + n, 1]
        scores[free], h.hashes[row, free] = e.scores[r, chosen], e.hashes[r, chosen]
        h.words[row, free] = e.words[r, chosen]
        h.lengths[row, free] = old[e.origins[r, chosen]] + e.written_count[r, chosen]
        for i in range(h.lengths[row, free]):  # the rest of the working copy is another stream's
            at = (h.first[row, 0] + i) % ring
            h.symbols[row, free, at], h.frames[row, free, at] = e.symbols[n, at], e.frames[n, at]
        e.moves[moves + n, 1], e.moves[moves + n, 2] = free, e.slots[r, chosen]
    return moves + fresh


@numba.njit(cache=True, nogil=True)
def commit(rows: Array, beam: Beam, h: Hypotheses, symbols: Array, late: Array) -> None:
    """Commit the symbols that agreement or time decides, and drop what contradicts them.

    Args:
        rows: (R,) which streams.
        beam: settings, of which the agreement and the waits count.
        h: hypotheses of all streams.
        symbols: (R, N) int32, set to the committed symbols, -1 for none.
        late: (R, N) int32, set to the frames from each symbol's own to the newest one.
    """
    ring = h.symbols.shape[2]
    for r in range(len(rows)):
        row = rows[r]
        symbols[r], late[r] = -1, 0
        best = _best(h.scores[row])
        count = _agreed(row, best, beam.agreement, h)
        now = h.clock[row, 0] - 1  # the newest frame
        due = 0
        while due < h.lengths[row, best]:
            at = (h.first[row, 0] + due) % ring
            if now - h.frames[row, best, at] < beam.max_wait:
                break
            due += 1
        count = max(count, due)
        _drop_rivals(row, best, count, now - beam.rival_wait, h)
        for n in range(count):
            at = (h.first[row, 0] + n) % ring
            # the last symbol may have come from another hypothesis, at a later frame
            h.last_committed[row, 0] = max(h.last_committed[row, 0], h.frames[row, best, at])
            symbols[r, n] = h.symbols[row, best, at]
            late[r, n] = now - h.last_committed[row, 0]
        if count:
            h.first[row, 0] = (h.first[row, 0] + count) % ring
            for k in range(h.scores.shape[1]):
                h.lengths[row, k] -= count


@numba.njit(cache=True, nogil=True)
def _best(scores: Array) -> int:
    best = 0
    for k in range(1, len(scores)):
        if scores[k] > scores[best]:
            best = k
    return best


@numba.njit(cache=True, nogil=True)
def _agreed(row: int, best: int, agreement: float, h: Hypotheses) -> int:
    """Return how many first symbols of the best hypothesis have the `agreement` of the others."""
    ring, count, scores = h.symbols.shape[2], h.lengths[row, best], h.scores[row]
    if count == 0:
        return 0
    shares = np.zeros(count + 1, np.float32)  # probability of just n symbols in common
    whole = np.float32(0)
    for k in range(len(scores)):
        if scores[k] == _NOTHING:
            continue
        n, most = 0, min(count, h.lengths[row, k])
        while n < most:
            at = (h.first[row, 0] + n) % ring
            if h.symbols[row, k, at] != h.symbols[row, best, at]:
                break
            n += 1
        share = exp(scores[k] - scores[best])
        shares[n] += share
        whole += share
    agreed = shares[count]
    while count > 0 and agreed < np.float32(agreement) * whole:
        count -= 1
        agreed += shares[count]
    return count


@numba.njit(cache=True, nogil=True)
def _drop_rivals(row: int, best: int, count: int, due: int, h: Hypotheses) -> None:
    """Drop hypotheses that do not begin with the `count` committed symbols of the best one.

    Drop those, too, whose next symbol is at frame `due` or before: the best one has none there.
    """
    ring = h.symbols.shape[2]
    for k in range(h.scores.shape[1]):
        same = h.lengths[row, k] >= count
        for n in range(count):
            at = (h.first[row, 0] + n) % ring
            same = same and h.symbols[row, k, at] == h.symbols[row, best, at]
        if same and h.lengths[row, k] > count:
            same = h.frames[row, k, (h.first[row, 0] + count) % ring] > due
        if not same:
            h.scores[row, k] = _NOTHING


def uncommitted(rows: Array, h: Hypotheses) -> Emissions:
    """Return the uncommitted symbols of the best hypotheses of the streams in (R,) rows."""
    best = h.scores[rows].argmax(1)
    lengths = h.lengths[rows, best]
    found = Emissions.nothing(len(rows), int(lengths.max(initial=0)))
    for n in range(found.symbols.shape[1]):
        at = (h.first[rows, 0] + n) % h.symbols.shape[2]
        frame = np.maximum(h.frames[rows, best, at], h.last_committed[rows, 0])
        found.symbols[:, n] = np.where(n < lengths, h.symbols[rows, best, at], -1)
        found.late[:, n] = np.where(n < lengths, h.clock[rows, 0] - 1 - frame, 0)
    return found


def restart(rows: Array, h: Hypotheses) -> None:
    """Reset the streams in (R,) rows to one empty hypothesis."""
    h.scores[rows] = _NOTHING
    h.scores[rows, 0] = 0
    h.hashes[rows] = 0
    h.words[rows] = 0
    h.lengths[rows] = 0
