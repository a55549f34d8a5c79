"""Which symbols of a beam search are committed, when, and how sure they are; compiled.

The decoder leads the search: its stops and letters tell where a text may go on. But it is surer of
what it writes than it is right, most of all with strange voices. So where hypotheses are weighed
against each other, its log-probability counts less than in the search, by the setting `deciding`.

The language model scores an unfinished word by all the words that it may become. Where no letter
has come for `pause` frames none will: there a hypothesis is weighed as if its word had ended.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cortado.model.arrays import Array
from cortado.model.compiled.functions import exp, log
from cortado.model.compiled.jit import uncounted
from cortado.model.emission import CERTAIN, Emissions
from cortado.model.search import language_model as language
from cortado.model.search import look_ahead, phrases
from cortado.model.search.hypotheses import NOTHING, Candidates, Hypotheses, place
from cortado.model.search.neural_language_model import Histories
from cortado.model.search.settings import Beam
from cortado.model.search.voice import strangeness

FLATTENED = np.float32(0.4)  # power of a hypothesis' probability in the confidence of its symbols
LEAST_DOUBT = np.float32(1e-3)  # what the beam does not show
ZERO, ONE = np.float32(0), np.float32(1)


class Texts(NamedTuple):
    """The hypotheses of one stream, as views of its `Hypotheses`."""

    scores: Array  # (K,) by which they are chosen
    lengths: Array  # (K,)
    symbols: Array  # (K, N)
    frames: Array  # (K, N)
    first: int  # place of the first symbol in the ring


@uncounted(cached=True)
def commit(
    rows: Array,
    beam: Beam,
    h: Hypotheses,
    e: Candidates,
    symbols: Array,
    late: Array,
    confidence: Array,
) -> None:
    """Commit the symbols that agreement or time decides, and drop what contradicts them.

    Args:
        rows: (R,) which streams.
        beam: settings, of which the agreement and the waits count.
        h: hypotheses of all streams.
        e: memory.
        symbols: (R, N) int32, set to the committed symbols, -1 for none.
        late: (R, N) int32, set to the frames from each symbol's own to the newest one.
        confidence: (R, N) int32, set to the confidence of each in thousandths.
    """
    ring = h.symbols.shape[2]
    for r in range(len(rows)):
        row = rows[r]
        symbols[r], late[r] = -1, 0
        first = h.first[row, 0]
        choose_by(h, row, beam, e.histories)
        best = _best(h.chosen[row])
        texts = Texts(h.chosen[row], h.lengths[row], h.symbols[row], h.frames[row], first)
        own, frames, lengths = texts.symbols[best], texts.frames[best], texts.lengths
        count = _agreed(texts, best, beam.agreement, e.shares)
        now = h.clock[row, 0] - 1  # the newest frame
        due = 0
        while due < lengths[best] and now - frames[place(first, due, ring)] >= beam.max_wait:
            due += 1
        count = max(count, due)
        for n in range(count):
            at = place(first, n, ring)
            # the last symbol may have come from another hypothesis, at a later frame
            h.last_committed[row, 0] = max(h.last_committed[row, 0], frames[at])
            symbols[r, n] = own[at]
            late[r, n] = now - h.last_committed[row, 0]
        _rate(texts, best, count, beam, h.voice[row], e.shares, late[r], confidence[r])
        _drop_rivals(texts, best, count, now - beam.rival_wait, h.scores[row])
        if count:
            h.first[row, 0] = place(first, count, ring)
            for k in range(len(lengths)):
                lengths[k] -= count


@uncounted(cached=True)
def choose_by(h: Hypotheses, row: int, beam: Beam, m: Histories) -> None:
    """Set what a stream's hypotheses are weighed by against another, in nats."""
    less, found = np.float32(beam.deciding - 1), h.chosen[row]
    for k in range(len(found)):
        found[k] = h.scores[row, k] + less * h.decoded[row, k]
        if found[k] != NOTHING and _rests(h, row, k, beam.pause):
            found[k] += _ended(h, row, k, beam, m)


@uncounted(forceinline=True)
def _rests(h: Hypotheses, row: int, k: int, pause: int) -> bool:
    """Return whether a hypothesis has had no symbol for `pause` frames."""
    count, newest = h.lengths[row, k], h.last_committed[row, 0]
    if count:
        newest = h.frames[row, k, place(h.first[row, 0], count - 1, h.frames.shape[2])]
    return bool(h.clock[row, 0] - 1 - newest >= pause)


@uncounted(forceinline=True)
def _ended(h: Hypotheses, row: int, k: int, beam: Beam, m: Histories) -> np.float32:
    """Return what a hypothesis gains where its unfinished word ends; an expected one is free.

    What an unfinished phrase has gained is given back.
    """
    phrase, tree = h.phrase[row, k], h.trees[row]
    gained = np.float32(beam.expected) * np.float32(-phrases.unfinished(tree, phrase))
    if beam.words.weight == 0:
        return gained
    node, before, last = h.words[row, k]
    known = language.ends_word(beam.words, node)
    if not known and phrase != phrases.OUTSIDE:
        if phrases.ends_word(tree, phrase):
            return gained
        gained += look_ahead.waived(beam.words, node, phrase)
    if known and beam.words.neural.share > 0:
        gained += language.mixture_gain(beam.words, m, node, before, last, h.earlier[row, k])
    return gained + language.word_end_gain(beam.words, node, before, last)


@uncounted(cached=True)
def _best(scores: Array) -> int:
    best = 0
    for k in range(1, len(scores)):
        if scores[k] > scores[best]:
            best = k
    return best


@uncounted(forceinline=True)
def _common(texts: Texts, a: int, b: int, most: int) -> int:
    """Return how many of the first `most` uncommitted symbols two hypotheses have in common."""
    one, other, ring = texts.symbols[a], texts.symbols[b], texts.symbols.shape[1]
    n, most = 0, min(most, texts.lengths[a], texts.lengths[b])
    while n < most:
        at = place(texts.first, n, ring)
        if one[at] != other[at]:
            break
        n += 1
    return n


@uncounted(forceinline=True)
def _shares(texts: Texts, best: int, count: int, power: np.float32, shares: Array) -> np.float32:
    """Set (count + 1,) shares to the probability of just n first symbols in common with the best.

    Probabilities are relative to the best one's and to a power. Return the sum.
    """
    scores, whole = texts.scores, ZERO
    shares[: count + 1] = ZERO
    for k in range(len(scores)):
        if scores[k] != NOTHING:
            share = exp((scores[k] - scores[best]) * power)
            shares[_common(texts, best, k, count)] += share
            whole += share
    return whole


@uncounted(cached=True)
def _rate(
    texts: Texts,
    best: int,
    count: int,
    beam: Beam,
    voice: Array,
    shares: Array,
    late: Array,
    found: Array,
) -> None:
    """Set the first `count` of `found` to the confidence of the best one's symbols, in thousandths.

    It is the share of all hypotheses' probability that has the symbols up to there. Probabilities
    are flattened first, because the beam keeps few of the texts that there are. Their log-odds are
    made those that the symbol's word is right by numbers of the model: a symbol that waited until
    its time was up is less sure than one on which hypotheses agreed soon, and so is all that a
    strange voice says.

    Args:
        texts: hypotheses of the stream.
        best: the best of them.
        count: of its first symbols.
        beam: settings, of which the longest wait and the numbers count.
        voice: the stream's, of `Hypotheses`.
        shares: (count + 1 or more,) memory.
        late: (count or more,) frames from each symbol's own to the newest.
        found: (count or more,) int32, set.
    """
    if count == 0:
        return
    whole = _shares(texts, best, count, FLATTENED, shares)
    by, longest = beam.confidence, np.float32(max(beam.max_wait, 1))
    own = np.float32(by.offset) + np.float32(by.strangeness) * strangeness(voice)
    agreed, others = ZERO, whole
    for n in range(count, 0, -1):
        agreed += shares[n]
        others = max(whole - agreed, LEAST_DOUBT * whole)
        odds = np.float32(by.slope) * (log(agreed) - log(others)) + own
        waited = min(np.float32(late[n - 1]) / longest, ONE)
        odds += np.float32(by.wait) * waited * waited
        found[n - 1] = round(CERTAIN / (1 + math.exp(-odds)))


@uncounted(cached=True)
def _agreed(texts: Texts, best: int, agreement: float, shares: Array) -> int:
    """Return how many first symbols of the best hypothesis have the `agreement` of the others.

    The shares are memory for one more than it has.
    """
    count = texts.lengths[best]
    if count == 0:
        return 0
    whole = _shares(texts, best, count, ONE, shares)
    agreed = shares[count]
    while count > 0 and agreed < np.float32(agreement) * whole:
        count -= 1
        agreed += shares[count]
    return count


@uncounted(cached=True)
def _drop_rivals(texts: Texts, best: int, count: int, due: int, scores: Array) -> None:
    """Drop hypotheses that do not begin with the `count` committed symbols of the best one.

    Drop those, too, whose next symbol is at frame `due` or before: the best one has none there.
    """
    ring = texts.symbols.shape[1]
    next_one = place(texts.first, count, ring)
    for k in range(len(scores)):
        if scores[k] == NOTHING:
            continue
        same = texts.lengths[k] >= count and _common(texts, best, k, count) == count
        if same and texts.lengths[k] > count:
            same = texts.frames[k, next_one] > due
        if not same:
            scores[k] = texts.scores[k] = NOTHING


def pending(rows: Array, h: Hypotheses) -> NDArray[np.int32]:
    """Return the frames (R,) since the newest uncommitted symbol of the streams in (R,) rows.

    It is the best hypothesis' own; -1 where that has none.
    """
    found = np.empty(len(rows), np.int32)
    _pending(rows, h, found)
    return found


@uncounted(cached=True)
def _pending(rows: Array, h: Hypotheses, found: Array) -> None:
    ring = h.symbols.shape[2]
    for r in range(len(rows)):
        row = rows[r]
        best = _best(h.chosen[row])
        count, first = h.lengths[row, best], h.first[row, 0]
        newest = h.frames[row, best, place(first, count - 1, ring)] if count else h.clock[row, 0]
        found[r] = h.clock[row, 0] - 1 - newest


def uncommitted(rows: Array, beam: Beam, h: Hypotheses) -> Emissions:
    """Return the uncommitted symbols of the best hypotheses of the streams in (R,) rows."""
    scores = h.chosen[rows]
    best = scores.argmax(1)
    lengths = h.lengths[rows, best]
    found = Emissions.nothing(len(rows), int(lengths.max(initial=0)))
    for n in range(found.symbols.shape[1]):
        at = (h.first[rows, 0] + n) % h.symbols.shape[2]
        frame = np.maximum(h.frames[rows, best, at], h.last_committed[rows, 0])
        found.symbols[:, n] = np.where(n < lengths, h.symbols[rows, best, at], -1)
        found.late[:, n] = np.where(n < lengths, h.clock[rows, 0] - 1 - frame, 0)
    each = zip(rows, scores, best, lengths, found.late, found.confidence, strict=True)
    for row, own, most, length, late, confidence in each:
        first = h.first[row, 0]
        texts = Texts(own, h.lengths[row], h.symbols[row], h.frames[row], first)
        shares = np.empty(length + 1, np.float32)
        count = int(length)  # as in `commit`: for another type streams would wait for a compilation
        _rate(texts, most, count, beam, h.voice[row], shares, late, confidence)
    return found
