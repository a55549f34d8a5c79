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

With a language model, a symbol's score includes the words that it may become (language_model.py),
less what the decoder knows of letters by itself (source_model.py).
With a weight of the CTC head, a hypothesis' score includes the head's probability of its text up to
the frame (ctc_score.py), as joint decoding has it (Watanabe et al. 2017; Moritz et al. 2019). With
one of the phone head, it includes how well the words' phones fit the frames (pronunciation.py).
Letters of phrases that the stream expects gain a bonus (phrases.py).

This is the bookkeeping, compiled. A backend computes the decoder's energies and logits in rounds:

    scanning = begin_frame(...)               # candidates that need their energy (hearing.py)
    for each symbol that may be written at one frame, and once more:
        stopping = stop(scanning, energies)   # candidates that stop, and need their logits
        scanning = extend(stopping, logits)   # the best candidates with one symbol more
    prune(...)                                # the hypotheses that survive (survivors.py)
    commit(...)                               # the symbols that are committed now (commit.py)
"""

import numpy as np

from cortado.model.arrays import Array
from cortado.model.compiled.functions import exp, log
from cortado.model.compiled.jit import inlined, uncounted
from cortado.model.search import ctc_score as ctc
from cortado.model.search import language_model as language
from cortado.model.search import look_ahead, phrases, pronunciation, source_model
from cortado.model.search.hearing import begun_phones, word_phones
from cortado.model.search.hypotheses import NOTHING, Candidates
from cortado.model.search.settings import Beam

ONE = np.float32(1)
MULTIPLIER = np.int64(6364136223846793005)  # of a text's hash (Knuth's MMIX)
MOST_MIXED = np.float32(3)  # nats; a word that needs more of the neural model is given up
WORK, SHARES = 0, 2  # rows of `Candidates.gains`


@uncounted(cached=True)
def stop(scanning: int, energies: Array, count: int, cap: int, beam: Beam, e: Candidates) -> int:
    """Score stopping and moving on for all scanning candidates; return how many may stop.

    Args:
        scanning: number of scanning candidates.
        energies: (scanning,) the energy of each at the frame.
        count: symbols that each has written at the frame.
        cap: most symbols at one frame.
        beam: settings, of which the pruning and the least probabilities of stops count.
        e: the frame's candidates.
    """
    first, further = beam.min_stop_probability, beam.min_further_stop_probability
    stopping, floor = 0, log(np.float32(further if count else first))
    for n in range(scanning):
        r, k = e.scanning[n]
        energy = energies[n]
        stop = min(energy, np.float32(0)) - log(ONE + exp(-abs(energy)))
        decoded = e.decoded[r, k]
        e.passed_scores[r, k] = e.scores[r, k] + (stop - energy)
        e.decoded[r, k] = decoded + (stop - energy)
        score = e.scores[r, k] + stop
        if count < cap and stop >= floor and score >= e.best[r] - np.float32(beam.pruning):
            e.stopping[stopping, 0], e.stopping[stopping, 1] = r, k
            e.stop_scores[stopping], e.stop_decoded[stopping] = score, decoded + stop
            stopping += 1
    return stopping


@inlined
def _normalise(logits: Array, score: np.float32, weight: np.float32, shares: Array) -> None:
    """Turn (V,) logits into weighted log-probabilities in place, and add a score in nats.

    Args:
        logits: changed in place.
        score: in nats.
        weight: of the log-probabilities.
        shares: (V,) memory: a loop that sums in order as well would not be vectorised.
    """
    most = _largest(logits)
    for v in range(len(logits)):
        shares[v] = exp(logits[v] - most)
    total = np.float32(0)
    for v in range(len(logits)):
        total += shares[v]
    whole = most + log(total)
    for v in range(len(logits)):
        logits[v] = score + weight * (logits[v] - whole)


@inlined
def _keep_decoded(n: int, scores: Array, e: Candidates) -> None:
    """Keep the nats of stopping candidate `n` with each symbol by the decoder alone.

    Args:
        n: place of the candidate.
        scores: (V,) those of the decoder behind the candidate's score.
        e: the frame's candidates.
    """
    without = e.stop_decoded[n] - e.stop_scores[n]
    for v in range(len(scores)):
        e.next_decoded[n, v] = scores[v] + without


@inlined
def _add(
    r: int, parent: int, symbol: int, score: np.float32, slot: int, beam: Beam, e: Candidates
) -> None:
    """Add a candidate that writes one symbol more than candidate `parent`."""
    k, added = e.sizes[r], e.written_count[r, parent]
    e.sizes[r] = k + 1
    e.origins[r, k], e.slots[r, k] = e.origins[r, parent], slot
    e.hashes[r, k] = (e.hashes[r, parent] + symbol + 1) * MULTIPLIER
    for a in range(added):
        e.written[r, k, a] = e.written[r, parent, a]
    e.written[r, k, added], e.written_count[r, k] = symbol, added + 1
    ending, new_ending = e.last[r, parent], e.last[r, k]
    new_ending[0] = symbol
    for n in range(1, len(ending)):
        new_ending[n] = ending[n - 1]
    if beam.ctc > 0:
        unheard = np.float32(beam.unheard)
        ctc.extend(e.forward[r, parent], ending, e.heard[r], symbol, unheard, e.forward[r, k])
    e.phrase[r, k] = phrases.ROOT  # the place may have been another stream's
    if e.expecting[r]:
        e.phrase[r, k] = phrases.followed(e.trees[r], e.phrase[r, parent], symbol)
    if beam.words.weight > 0:
        node, before, last = e.words[r, parent]
        found = language.followed(beam.words, node, before, last, symbol)
        e.words[r, k, 0], e.words[r, k, 1], e.words[r, k, 2] = found
        ends = symbol == beam.words.space and node != language.ROOT
        _follow_earlier(ends, r, parent, k, e)
        if beam.phones > 0:
            begun = e.begun[r, parent]
            if ends:
                phones = word_phones(r, parent, node, beam, e)
                pronunciation.fit(begun, e.spoken[r], phones, e.ended, e.ways)
                pronunciation.finish(e.ended, e.spoken[r], e.begun[r, k])
                begun = e.begun[r, k]
            phones = begun_phones(r, k, found[0], beam, e)
            reached = e.reached[r, k]
            total = pronunciation.fit(begun, e.spoken[r], phones, e.ended, reached)
            pronunciation.rebase(begun, total, e.begun[r, k])
            pronunciation.rebase(reached, total, reached)
            score += np.float32(beam.phones) * total
    e.scores[r, k] = score


@inlined
def _follow_earlier(ends: bool, r: int, parent: int, k: int, e: Candidates) -> None:
    """Give candidate `k` the words before its last two, from `parent`, whose word may end."""
    old, new = e.earlier[r, parent], e.earlier[r, k]
    for n in range(len(new)):
        if not ends:
            new[n] = old[n]
        elif n == 0:
            new[n] = e.words[r, parent, 1]
        else:
            new[n] = old[n - 1]


@inlined
def _mixed(r: int, k: int, beam: Beam, e: Candidates) -> np.float32:
    """Return what the neural language model adds where the word of candidate `k` ends."""
    node, before, last = e.words[r, k]
    if not language.ends_word(beam.words, node):
        return np.float32(0)
    earlier = e.earlier[r, k]
    return language.mixture_gain(beam.words, e.histories, node, before, last, earlier)


@inlined
def _add_gains(r: int, k: int, beam: Beam, e: Candidates, scores: Array) -> None:
    """Add to (V,) scores what the CTC head has to say of each symbol after candidate `k`."""
    found, unheard = e.gains[SHARES, : len(scores)], np.float32(beam.unheard)
    ctc.gains(e.forward[r, k], e.last[r, k], e.heard[r], unheard, e.gains[WORK:SHARES], found)
    for v in range(len(scores)):
        scores[v] += np.float32(beam.ctc) * found[v]


@uncounted(cached=True)
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
    scanning, n = 0, 0
    while n < stopping:
        r, end = e.stopping[n, 0], n
        least = e.best[r] - np.float32(beam.pruning)
        while end < stopping and e.stopping[end, 0] == r:
            scores = logits[end, :vocabulary]
            weight = np.float32(beam.letters)
            _normalise(scores, e.stop_scores[end], weight, e.gains[SHARES, :vocabulary])
            _keep_decoded(end, scores, e)
            if beam.ctc > 0:
                _add_gains(r, e.stopping[end, 1], beam, e, scores)
            if e.expecting[r]:
                node, bonus = e.phrase[r, e.stopping[end, 1]], np.float32(beam.expected)
                phrases.weigh(e.trees[r], node, bonus, scores)
            if len(beam.words.source):
                source_model.take_off(beam.words.source, e.last[r, e.stopping[end, 1]], scores)
            if beam.words.weight > 0:
                node, before, last = e.words[r, e.stopping[end, 1]]
                of_space = scores[beam.words.space]
                look_ahead.weigh(beam.words, node, before, last, least, e.known, scores)
                is_weighed = of_space >= least - np.float32(beam.words.bonus)
                is_near = scores[beam.words.space] >= least - MOST_MIXED
                if beam.words.neural.share > 0 and is_weighed and is_near:
                    scores[beam.words.space] += _mixed(r, e.stopping[end, 1], beam, e)
                if e.expecting[r]:
                    tree, phrase = e.trees[r], e.phrase[r, e.stopping[end, 1]]
                    look_ahead.waive_leaving(beam.words, node, tree, phrase, is_weighed, scores)
            end += 1
        scanning = _extend_stream(r, n, end, logits, least, vocabulary, slot, beam, e, scanning)
        n = end
    return scanning


@inlined
def _extend_stream(
    r: int,
    start: int,
    end: int,
    scores: Array,
    least: np.float32,
    vocabulary: int,
    slot: int,
    beam: Beam,
    e: Candidates,
    scanning: int,
) -> int:
    """Add the best extensions of a stream's stopping candidates; return how many scan on.

    Args:
        r: the stream.
        start: its first stopping candidate.
        end: the one after its last.
        scores: (stopping, V or more) of each with each symbol; those that are taken are lost.
        least: what a score has to exceed.
        vocabulary: V.
        slot: slot of the first stopping candidate's decoder state.
        beam: settings of the search.
        e: the frame's candidates; `stop_scores` becomes the best score of each.
        scanning: number of scanning candidates so far.
    """
    for n in range(start, end):
        e.stop_scores[n] = _largest(scores[n, :vocabulary])
    for _ in range(beam.width):
        at = start
        for n in range(start + 1, end):
            if e.stop_scores[n] > e.stop_scores[at]:
                at = n
        best = e.stop_scores[at]
        if best <= least:
            break
        symbol = 0
        while scores[at, symbol] != best:
            symbol += 1
        scores[at, symbol] = NOTHING
        e.stop_scores[at] = _largest(scores[at, :vocabulary])
        _add(r, e.stopping[at, 1], symbol, best, slot + at, beam, e)
        e.decoded[r, e.sizes[r] - 1] = e.next_decoded[at, symbol]
        e.scanning[scanning, 0], e.scanning[scanning, 1] = r, e.sizes[r] - 1
        scanning += 1
    return scanning


@uncounted(forceinline=True)
def _largest(scores: Array) -> np.float32:
    most = scores[0]
    for v in range(1, len(scores)):
        most = max(most, scores[v])
    return most
