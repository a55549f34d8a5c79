"""How a frame of a beam search begins: the heads are heard, and hypotheses become candidates.

The CTC head scores each hypothesis' text (ctc_score.py), the phone head the pronunciation of its
words (pronunciation.py); of both, a stream remembers the last frames. Compiled.
"""

import numpy as np

from cortado.model.arrays import Array
from cortado.model.compiled.jit import inlined, uncounted
from cortado.model.search import ctc_score as ctc
from cortado.model.search import language_model as language
from cortado.model.search import phrases, pronunciation, voice
from cortado.model.search.hypotheses import NOTHING, Candidates, Hypotheses, copy, copy_rows
from cortado.model.search.settings import Beam


@uncounted(cached=True)
def begin_frame(rows: Array, logits: Array, beam: Beam, h: Hypotheses, e: Candidates) -> int:
    """Make candidates of the hypotheses of the streams in (R,) rows; return their number.

    Args:
        rows: which streams.
        logits: (R, V + 1 + P or more) of the CTC head at the frame, the blank first, and of the
            phone head.
        beam: settings, of which those of the CTC head count.
        h: hypotheses of all streams.
        e: set.
    """
    scanning = 0
    for r in range(len(rows)):
        row, count = rows[r], 0
        if beam.ctc > 0:
            _hear(row, r, logits[r], h, e)
        if beam.phones > 0:
            _hear_phones(row, r, logits[r, h.heard.shape[2] :], h, e)
        e.expecting[r] = h.trees[row, phrases.ROOT, phrases.CHILD] != 0
        if e.expecting[r]:
            copy_rows(h.trees[row], e.trees[r])
            copy(h.sounds[row], e.sounds[r])
        e.best[r] = NOTHING
        for k in range(h.scores.shape[1]):
            score = h.scores[row, k]
            if score == NOTHING:
                continue
            if beam.ctc > 0:
                forward, now = h.forward[row, k], e.heard[r, ctc.NOW - 1]
                gained = ctc.advance(forward, h.last[row, k], now, np.float32(beam.unheard))
                score += np.float32(beam.ctc) * gained
                copy_rows(forward, e.forward[r, count])
            copy(h.last[row, k], e.last[r, count])
            copy(h.words[row, k], e.words[r, count])
            copy(h.earlier[row, k], e.earlier[r, count])
            e.phrase[r, count] = h.phrase[row, k]
            if beam.phones > 0:
                begun = h.begun[row, k]
                phones = begun_phones(r, count, h.words[row, k, 0], beam, e)
                score += _advance(begun, h.reached[row, k], e.spoken[r], phones, beam, e)
                copy(begun, e.begun[r, count])
            e.best[r] = max(e.best[r], score)
            e.scores[r, count], e.hashes[r, count] = score, h.hashes[row, k]
            e.decoded[r, count] = h.decoded[row, k]
            e.origins[r, count], e.slots[r, count], e.written_count[r, count] = k, -1, 0
            e.scanning[scanning, 0], e.scanning[scanning, 1] = r, count
            scanning, count = scanning + 1, count + 1
        e.sizes[r] = count
    return scanning


@inlined
def _hear(row: int, r: int, logits: Array, h: Hypotheses, e: Candidates) -> None:
    """Add a frame's logits (V + 1 or more,) of the CTC head to those that a stream remembers."""
    _forget_oldest(h.heard[row], e.heard[r])
    ctc.probabilities(logits, h.heard[row, ctc.NOW - 1])
    voice.listen(h.heard[row, ctc.NOW - 1], h.voice[row])
    copy(h.heard[row, ctc.NOW - 1], e.heard[r, ctc.NOW - 1])


@inlined
def _hear_phones(row: int, r: int, logits: Array, h: Hypotheses, e: Candidates) -> None:
    """Add a frame's logits (P or more,) of the phone head to those that a stream remembers."""
    _forget_oldest(h.spoken[row], e.spoken[r])
    pronunciation.relative(logits, h.spoken[row, pronunciation.NOW])
    copy(h.spoken[row, pronunciation.NOW], e.spoken[r, pronunciation.NOW])


@uncounted(forceinline=True)
def _forget_oldest(remembered: Array, working: Array) -> None:
    """Move the frames (N, P) that a stream remembers on by one, into a working copy, too."""
    width, count = remembered.shape[1], remembered.size
    old, new = remembered.reshape(count), working.reshape(count)
    for n in range(count - width):
        new[n] = old[n + width]
    for n in range(count - width):
        old[n] = new[n]


@inlined
def _advance(
    begun: Array, reached: Array, heard: Array, phones: Array, beam: Beam, e: Candidates
) -> np.float32:
    """Move the words of a text on by a frame; return what its score gains."""
    pronunciation.advance(begun, heard)
    total = pronunciation.follow(begun, heard[pronunciation.NOW], phones, reached)
    pronunciation.remember(begun, heard, phones, e.ended, e.ways, e.oldest)
    pronunciation.rebase(begun, total, begun)
    pronunciation.rebase(reached, total, reached)
    return np.float32(beam.phones) * total


@inlined
def begun_phones(r: int, k: int, node: int, beam: Beam, e: Candidates) -> Array:
    """Return the phones of the letters of candidate `k`'s unfinished word, at a tree node."""
    if node == language.NOWHERE and e.expecting[r]:
        return phrases.spoken(e.trees[r], e.sounds[r], e.phrase[r, k])
    return language.begun_phones(beam.words, node)


@inlined
def word_phones(r: int, k: int, node: int, beam: Beam, e: Candidates) -> Array:
    """Return the phones of candidate `k`'s word, which ends at a tree node."""
    if e.expecting[r] and not language.ends_word(beam.words, node):
        return phrases.spoken(e.trees[r], e.sounds[r], e.phrase[r, k])
    return language.word_phones(beam.words, node)
