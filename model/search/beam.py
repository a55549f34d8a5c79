"""Beam search over a hard monotonic attention, frame by frame, in constant memory.

The greedy scan stops at a frame where p >= 0.5 and writes the best symbol there; what it misses it
has missed. Here each of a stream's hypotheses both stops and goes on, and writes every symbol, and
the best few survive the frame. A hypothesis' probability is that of its stops, of the frames that
its scan passes and of its symbols, which is what training makes likely.

A symbol is committed, and never revised, once hypotheses with a share `agreement` of the survivors'
probability have it in common; what the best of them has heard is committed after `hold` frames,
whatever the others say. Those that differ are given up then. One that has heard what the best has
not is given up after `grace` frames. So a stream's state is bounded, no symbol is committed later
than that, and what is committed is a function of the audio alone.

With a language model each symbol is weighed by the words that it may become (language_model.py).

This is the bookkeeping, compiled; the decoder's numbers come from whoever steps it, in rounds:

    asked = begin(...)                        # hypotheses, each to be given its energy at the frame
    for each symbol that may be written at one frame, and once more:
        writing = divide(asked, energies)     # those that stop, each to be given its logits
        asked = extend(writing, logits)       # the best of what they write
    survive(...)                              # what is kept, and where its decoder state lies
    commit(...)                               # what is certain by now
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

WIDEST, LONGEST = 32, 2000  # hypotheses; milliseconds for which a symbol may be undecided

_NOTHING, _ONE = np.float32(-np.inf), np.float32(1)
_MULTIPLIER = np.int64(6364136223846793005)  # of a text's hash (Knuth's MMIX)


class Beam(NamedTuple):
    """How a stream is searched."""

    width: int = 8  # hypotheses; 1 for the greedy scan, without a search
    hold: int = 7  # frames after which what the best hypothesis has heard is committed anyway
    grace: int = 12  # frames for which others may have heard what the best one has not
    pruning: float = 3.5  # nats below the best hypothesis at which one is given up
    floor: float = 0.1  # probability of a stop below which it is not tried
    agreement: float = 0.9  # share of the probability that commits a symbol at once
    words: Language = language.NONE  # what words are weighed with beside the recogniser

    @property
    def weighs_words(self) -> bool:
        """Whether a language model has a say."""
        return self.width > 1 and self.words.weight > 0


USUAL = Beam()
GREEDY = Beam(width=1, hold=0, grace=0)


def flush_steps(beam: Beam) -> int:
    """Return the steps of silence after the end of the input until all is committed."""
    return FLUSH_STEPS + beam.grace


def asked_for(width: int | None, hold_ms: int | None, lm: str | None = None) -> Beam | None:
    """Return the search that a user wants, None for the usual one, where there is one.

    Raises:
        ValueError: fewer hypotheses than 1, or more than WIDEST; a time that is none; or a time or
            a language model `lm` for the greedy scan, which leaves nothing open and weighs nothing.
    """
    if width == 1 and lm not in (None, "none"):
        raise ValueError(f"expected a beam of 2 or more hypotheses with --lm {lm}, got {width}")
    if width == 1 and hold_ms is not None:
        raise ValueError(f"expected a beam of 2 or more hypotheses with --hold {hold_ms}, got 1")
    if width is None and hold_ms is None:
        return None
    if width is not None and not 1 <= width <= WIDEST:
        raise ValueError(f"expected a beam of 1 to {WIDEST} hypotheses, got {width}")
    if hold_ms is not None and not 0 <= hold_ms <= LONGEST:
        raise ValueError(f"expected to hold for 0 to {LONGEST} ms, got {hold_ms}")
    if width == 1:
        return GREEDY
    hold = USUAL.hold if hold_ms is None else round(hold_ms / 1000 / STEP_SECONDS)
    return USUAL._replace(width=width or USUAL.width, hold=hold, grace=max(hold, USUAL.grace))


def searching(backend: str, beam: Beam) -> str:
    """Return the name of a backend that searches."""
    if beam.width == 1:
        return backend
    return f"{backend}-beam{beam.width}" + ("-lm" if beam.weighs_words else "")


def identity(name: str, beam: Beam) -> bytes:
    """Return what tells a backend and its search from others, in a snapshot."""
    if beam.width == 1:
        return name.encode()
    numbers = repr((*beam[:-1], *beam.words[:5])).encode()
    return b"".join([name.encode(), numbers, *(part.tobytes() for part in beam.words[5:])])


def most_committed(beam: Beam, cap: int) -> int:
    """Return the most symbols that a step commits, where a frame has `cap` at most."""
    if beam.width == 1:
        return cap
    return cap * (beam.grace + 1)  # all that a hypothesis has heard, once it is the best


class Hypotheses(NamedTuple):
    """What is remembered of the hypotheses of each of S streams; the decoder's state is besides."""

    scores: Array  # (S, K) float32: relative to the best; -inf for none
    hashes: Array  # (S, K) int64: of the whole text
    words: Array  # (S, K, 3) int32: what the language model knows of it: a node, two words
    lengths: Array  # (S, K) int32: symbols that are not committed yet
    symbols: Array  # (S, K, N) int16: those, from `first` on, round about
    frames: Array  # (S, K, N) int32: in which they were heard
    first: Array  # (S, 1) int32
    clock: Array  # (S, 1) int32: frames
    newest: Array  # (S, 1) int32: in which the last committed symbol was heard


class Entries(NamedTuple):
    """Room for one frame's hypotheses of R streams: those from before, then those they become."""

    entered: Array  # (R,) int64: how many
    best: Array  # (R,) float32: the best score before the frame
    scores: Array  # (R, E) float32: before the frame is passed
    passed: Array  # (R, E) float32: after it
    hashes: Array  # (R, E) int64
    words: Array  # (R, E, 3) int32
    bases: Array  # (R, E) int64: which hypothesis it comes from
    slots: Array  # (R, E) int64: where its decoder state lies; -1 where it is that of the base
    added: Array  # (R, E) int64: symbols written at this frame
    written: Array  # (R, E, C) int16: those
    asked: Array  # (R K, 2) int64: stream and entry, to be given an energy
    writing: Array  # (R K, 2) int64: stream and entry, to be given logits
    stopped: Array  # (R K,) float32: their scores once they have stopped
    moves: Array  # (R K, 3) int64: stream, hypothesis, and the slot of its new decoder state
    symbols: Array  # (K, N) int16: room for texts
    frames: Array  # (K, N) int32


def hypotheses(streams: int, beam: Beam, cap: int) -> Hypotheses:
    """Return the hypotheses of streams before any audio, `cap` symbols a frame at most."""
    k, n = beam.width, most_committed(beam, cap)
    found = Hypotheses(
        scores=np.full((streams, k), _NOTHING),
        hashes=np.zeros((streams, k), np.int64),
        words=np.zeros((streams, k, 3), np.int32),
        lengths=np.zeros((streams, k), np.int32),
        symbols=np.zeros((streams, k, n), np.int16),
        frames=np.zeros((streams, k, n), np.int32),
        first=np.zeros((streams, 1), np.int32),
        clock=np.zeros((streams, 1), np.int32),
        newest=np.zeros((streams, 1), np.int32),
    )
    found.scores[:, 0] = 0
    return found


def entries(streams: int, beam: Beam, cap: int) -> Entries:
    """Return room for a frame of so many streams."""
    k, n = beam.width, most_committed(beam, cap)
    each = (streams, k * (cap + 1))
    return Entries(
        entered=np.zeros(streams, np.int64),
        best=np.zeros(streams, np.float32),
        scores=np.zeros(each, np.float32),
        passed=np.zeros(each, np.float32),
        hashes=np.zeros(each, np.int64),
        words=np.zeros((*each, 3), np.int32),
        bases=np.zeros(each, np.int64),
        slots=np.zeros(each, np.int64),
        added=np.zeros(each, np.int64),
        written=np.zeros((*each, cap), np.int16),
        asked=np.zeros((streams * k, 2), np.int64),
        writing=np.zeros((streams * k, 2), np.int64),
        stopped=np.zeros(streams * k, np.float32),
        moves=np.zeros((streams * k, 3), np.int64),
        symbols=np.zeros((k, n), np.int16),
        frames=np.zeros((k, n), np.int32),
    )


@numba.njit(cache=True, nogil=True)
def begin(rows: Array, h: Hypotheses, e: Entries) -> int:
    """Enter the hypotheses of the streams in (R,) rows; return how many are asked."""
    asked = 0
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
            e.bases[r, count], e.slots[r, count], e.added[r, count] = k, -1, 0
            e.asked[asked, 0], e.asked[asked, 1] = r, count
            asked, count = asked + 1, count + 1
        e.entered[r] = count
    return asked


@numba.njit(cache=True, nogil=True)
def divide(asked: int, energies: Array, more: bool, beam: Beam, e: Entries) -> int:
    """Let the hypotheses that are asked pass the frame; return how many stop there, too.

    Args:
        asked: how many were.
        energies: (A,) of each at the frame.
        more: whether another symbol may be written at it.
        beam: how far a hypothesis may fall.
        e: the frame.
    """
    writing, floor = 0, log(np.float32(beam.floor))
    for n in range(asked):
        r, k = e.asked[n]
        energy = energies[n]
        stop = min(energy, np.float32(0)) - log(_ONE + exp(-abs(energy)))
        e.passed[r, k] = e.scores[r, k] + (stop - energy)
        score = e.scores[r, k] + stop
        if more and stop >= floor and score >= e.best[r] - np.float32(beam.pruning):
            e.writing[writing, 0], e.writing[writing, 1] = r, k
            e.stopped[writing] = score
            writing += 1
    return writing


@numba.njit(nogil=True, forceinline=True)
def _normalise(logits: Array, score: np.float32) -> None:
    """Make of (V,) logits the logarithms of their probabilities, and add a score."""
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
def _enter(
    r: int, parent: int, symbol: int, score: np.float32, slot: int, beam: Beam, e: Entries
) -> None:
    """Enter a hypothesis that writes one symbol more than another one of the frame."""
    k, added = e.entered[r], e.added[r, parent]
    e.entered[r] = k + 1
    e.scores[r, k], e.bases[r, k], e.slots[r, k] = score, e.bases[r, parent], slot
    e.hashes[r, k] = (e.hashes[r, parent] + symbol + 1) * _MULTIPLIER
    for a in range(added):
        e.written[r, k, a] = e.written[r, parent, a]
    e.written[r, k, added], e.added[r, k] = symbol, added + 1
    if beam.words.weight > 0:
        node, before, last = e.words[r, parent]
        found = language.followed(beam.words, node, before, last, symbol)
        e.words[r, k, 0], e.words[r, k, 1], e.words[r, k, 2] = found


def _extending(source: str) -> Callable[..., int]:
    """Return the function `extend`, for a digest of the language model's code.

    The cache of compiled functions knows one by its own file and by what it encloses: it would not
    see that the language model's, which is compiled into it, has changed.
    """

    @numba.njit(cache=True, nogil=True)
    def extend(
        writing: int, logits: Array, vocabulary: int, slot: int, beam: Beam, e: Entries
    ) -> int:
        """Enter the best of what the hypotheses that stop write; return how many are asked next.

        Args:
            writing: how many stop.
            logits: (W, V or more) of each, which are changed.
            vocabulary: V.
            slot: where the decoder state of the first lies; those of the others follow.
            beam: how many.
            e: the frame.
        """
        assert source  # enclosed
        asked, n = 0, 0
        while n < writing:
            r, end = e.writing[n, 0], n
            least = e.best[r] - np.float32(beam.pruning)
            while end < writing and e.writing[end, 0] == r:
                scores = logits[end, :vocabulary]
                _normalise(scores, e.stopped[end])
                if beam.words.weight > 0:
                    node, before, last = e.words[r, e.writing[end, 1]]
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
                _enter(r, e.writing[at, 1], symbol, best, slot + at, beam, e)
                e.asked[asked, 0], e.asked[asked, 1] = r, e.entered[r] - 1
                asked += 1
            n = end
        return asked

    return extend


extend = _extending(hashlib.sha256(Path(language.__file__).read_bytes()).hexdigest())


@numba.njit(cache=True, nogil=True)
def survive(rows: Array, beam: Beam, h: Hypotheses, e: Entries) -> int:
    """Keep the best hypotheses of each stream; return how many decoder states move.

    `e.moves` says from which slot to which hypothesis. One that writes nothing stays where it is.
    """
    moves = 0
    for r in range(len(rows)):
        _merge(e.entered[r], e.passed[r], e.hashes[r])
        moves = _keep(r, rows[r], moves, beam, h, e)
        h.clock[rows[r], 0] += 1
    return moves


@numba.njit(cache=True, nogil=True)
def _merge(count: int, passed: Array, hashes: Array) -> None:
    """Let one text be one hypothesis, with the likelier one's stops and both their probability."""
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
def _keep(r: int, row: int, moves: int, beam: Beam, h: Hypotheses, e: Entries) -> int:
    width, ring = h.scores.shape[1], h.symbols.shape[2]
    old = h.lengths[row].copy()
    scores = h.scores[row]
    scores[:] = _NOTHING
    best, fresh = _NOTHING, 0
    for n in range(width):
        chosen = -1
        for k in range(e.entered[r]):
            if chosen < 0 or e.passed[r, k] > e.passed[r, chosen]:
                chosen = k
        score = e.passed[r, chosen]
        if n == 0:
            best = score
        if score == _NOTHING or score < best - np.float32(beam.pruning):
            break
        e.passed[r, chosen] = _NOTHING
        if e.slots[r, chosen] < 0:
            scores[e.bases[r, chosen]] = score - best
            continue
        e.scores[r, chosen] = score - best
        base, length = e.bases[r, chosen], old[e.bases[r, chosen]]
        for i in range(length):
            at = (h.first[row, 0] + i) % ring
            e.symbols[fresh, at], e.frames[fresh, at] = (
                h.symbols[row, base, at],
                h.frames[row, base, at],
            )
        for a in range(e.added[r, chosen]):
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
        h.lengths[row, free] = old[e.bases[r, chosen]] + e.added[r, chosen]
        for i in range(h.lengths[row, free]):  # and no more: what else is there is another stream's
            at = (h.first[row, 0] + i) % ring
            h.symbols[row, free, at], h.frames[row, free, at] = e.symbols[n, at], e.frames[n, at]
        e.moves[moves + n, 1], e.moves[moves + n, 2] = free, e.slots[r, chosen]
    return moves + fresh


@numba.njit(cache=True, nogil=True)
def commit(rows: Array, beam: Beam, h: Hypotheses, symbols: Array, late: Array) -> None:
    """Set symbols (R, N) to what is certain by now, -1 for nothing.

    Args:
        rows: (R,) which streams.
        beam: when a symbol is certain.
        h: hypotheses of all streams.
        symbols: (R, N) int32, set.
        late: (R, N) int32, set to the frames from those in which they were heard to the newest.
    """
    ring = h.symbols.shape[2]
    for r in range(len(rows)):
        row = rows[r]
        symbols[r], late[r] = -1, 0
        best = _best(h.scores[row])
        count = _agreed(row, best, beam.agreement, h)
        now = h.clock[row, 0] - 1  # the frame that has just been heard
        due = 0
        while due < h.lengths[row, best]:
            at = (h.first[row, 0] + due) % ring
            if now - h.frames[row, best, at] < beam.hold:
                break
            due += 1
        count = max(count, due)
        _give_up(row, best, count, now - beam.grace, h)
        for n in range(count):
            at = (h.first[row, 0] + n) % ring
            # another hypothesis may have been the best, and have heard the last one later
            h.newest[row, 0] = max(h.newest[row, 0], h.frames[row, best, at])
            symbols[r, n] = h.symbols[row, best, at]
            late[r, n] = now - h.newest[row, 0]
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
    """Return how many symbols of the best hypothesis a share `agreement` of all have, too."""
    ring, count, scores = h.symbols.shape[2], h.lengths[row, best], h.scores[row]
    if count == 0:
        return 0
    shares = np.zeros(count + 1, np.float32)  # of the hypotheses that have n symbols in common
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
    with_it = shares[count]
    while count > 0 and with_it < np.float32(agreement) * whole:
        count -= 1
        with_it += shares[count]
    return count


@numba.njit(cache=True, nogil=True)
def _give_up(row: int, best: int, count: int, due: int, h: Hypotheses) -> None:
    """Let only those hypotheses live that begin as the best one does.

    One that has heard more by the frame `due` does not: the best one says that nothing was there.
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
    """Return what the best hypotheses of the streams in (R,) rows have not committed yet."""
    best = h.scores[rows].argmax(1)
    lengths = h.lengths[rows, best]
    found = Emissions.nothing(len(rows), int(lengths.max(initial=0)))
    for n in range(found.symbols.shape[1]):
        at = (h.first[rows, 0] + n) % h.symbols.shape[2]
        heard = np.maximum(h.frames[rows, best, at], h.newest[rows, 0])
        found.symbols[:, n] = np.where(n < lengths, h.symbols[rows, best, at], -1)
        found.late[:, n] = np.where(n < lengths, h.clock[rows, 0] - 1 - heard, 0)
    return found


def renew(rows: Array, h: Hypotheses) -> None:
    """Let streams have one hypothesis, which has written nothing."""
    h.scores[rows] = _NOTHING
    h.scores[rows, 0] = 0
    h.hashes[rows] = 0
    h.words[rows] = 0
    h.lengths[rows] = 0
