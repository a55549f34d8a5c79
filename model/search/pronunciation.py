"""How well a hypothesis' words, as they are pronounced, fit the frames that are heard, compiled.

A head gives each frame a score of silence and of each phone. The words before the unfinished one
may have ended at any of the last frames: `begun` holds the score of the best way for each, found by
Viterbi's algorithm. From there the phones of the unfinished word's letters are laid on the frames
up to now, each on one or more; single ones may be left out. Letters come later than their phones,
so what follows those may be heard already: it costs a constant for each frame. Or the last phones
are not heard yet. Between words there is silence, or noise at that constant cost. A word that goes
on when the frame before it is forgotten, as in a pause behind a word without its space, keeps one
score of its own at the same cost (`LOST`).

Which phones the letters of an unfinished word have is not certain before it ends. The language
model names the likeliest word that begins so, and how many of its phones these letters take.

A frame more needs one step of that algorithm: `reached` holds the scores of the ways by the phone
where they are. A letter more changes the phones, which are laid on all frames anew.

A frame's scores are relative to its likeliest phone, those of ways to the best way of the text.
"""

import numpy as np

from cortado.model.arrays import Array
from cortado.model.compiled.jit import uncounted
from cortado.model.compiled.viterbi import IMPOSSIBLE, viterbi

HISTORY = 48  # frames that are remembered: few words last longer, their letters' delay included
NOW = HISTORY - 1  # the place of the newest frame
LOST = HISTORY  # the place behind: the unfinished word's own score, its beginning forgotten
PLACES = HISTORY + 1
SHORT = 16  # phones of most words, and one more, which a register or two hold
LONGEST = 31  # phones of a word that count
REACHED = LONGEST + 1  # those, and the place behind the last
SILENCE = 0  # output of the head
FORGOTTEN = np.float32(-20)  # nats below the best way
# what departs from a pronunciation costs, in nats
BEYOND = np.float32(1)  # a frame behind the phones of the letters
MISSED = np.float32(2)  # a phone left out
UNSPOKEN = np.float32(1)  # a last phone that is not heard yet


_lay_short, _lay_long = viterbi(SHORT), viterbi(REACHED)


@uncounted()
def relative(logits: Array, found: Array) -> None:
    """Set `found` (P,) to the first P logits, less the largest of them."""
    most = logits[0]
    for p in range(1, len(found)):
        most = max(most, logits[p])
    for p in range(len(found)):
        found[p] = logits[p] - most


def begin(begun: Array, reached: Array) -> None:
    """Set (..., PLACES) and (..., REACHED) scores to those of empty texts."""
    begun[:], reached[:] = IMPOSSIBLE, IMPOSSIBLE
    begun[..., NOW] = 0


@uncounted()
def fit(begun: Array, heard: Array, phones: Array, ended: Array, reached: Array) -> np.float32:
    """Return the score in nats of a text with an unfinished word.

    Args:
        begun: (PLACES,) of the words before it, by the frame at which they ended.
        heard: (HISTORY, P) of the phones at the last frames, oldest first.
        phones: (Q,) of the letters of the unfinished word.
        ended: (HISTORY,) set to the scores by the frame at which the last phone ended; without
            phones, by the frame up to which anything may have been said.
        reached: (REACHED,) set to the scores by the phone that is reached at the newest frame.
    """
    count, first = min(len(phones), LONGEST), 0
    while first < NOW and begun[first] == IMPOSSIBLE:
        ended[first] = IMPOSSIBLE
        first += 1
    ended[first] = IMPOSSIBLE
    row, lost = heard.shape[1], begun[LOST]
    words = begun, heard, row, phones, count, first, HISTORY
    if count < SHORT:
        total = _lay_short(*words, MISSED, BEYOND, UNSPOKEN, ended, reached)
        reached[SHORT:] = IMPOSSIBLE
    else:
        total = _lay_long(*words, MISSED, BEYOND, UNSPOKEN, ended, reached)
    ended[NOW] = max(ended[NOW], lost)
    return max(total, lost, begun[NOW] - np.float32(count) * UNSPOKEN)


@uncounted()
def follow(begun: Array, now: Array, phones: Array, reached: Array) -> np.float32:
    """Return the score that `fit` gave a text a frame ago, moved on to the newest frame.

    Args:
        begun: (PLACES,) as for `fit`, moved on.
        now: (P,) of the phones at the newest frame.
        phones: (Q,) as for `fit`, the same as a frame ago.
        reached: (REACHED,) as it was set a frame ago; moved on.
    """
    count = min(len(phones), LONGEST)
    total = max(begun[LOST], begun[NOW] - np.float32(count) * UNSPOKEN)
    one = two = begun[NOW - 1]  # of the ways that were one and two phones before
    for q in range(count):
        same = reached[q]
        best = max(same, one)
        if q:
            best = max(best, two - MISSED)
        reached[q] = best + now[phones[q]]
        total = max(total, reached[q] - np.float32(count - 1 - q) * UNSPOKEN)
        one, two = same, one
    reached[count] = max(reached[count], one) - BEYOND
    return max(total, reached[count])


@uncounted()
def advance(begun: Array, heard: Array) -> None:
    """Move the scores (PLACES,) of words that ended on by a frame, silent or of noise."""
    for n in range(NOW):
        begun[n] = begun[n + 1]
    begun[NOW] = begun[NOW] + max(heard[NOW, SILENCE], -BEYOND)
    begun[LOST] -= BEYOND


@uncounted()
def remember(
    begun: Array, heard: Array, phones: Array, ended: Array, reached: Array, oldest: Array
) -> None:
    """Keep the score of a word from the oldest frame in `LOST`.

    Its arguments are those of `fit`, of which the last two are memory here, and (PLACES,) memory.
    """
    if len(phones) and begun[0] != IMPOSSIBLE:
        oldest[:] = IMPOSSIBLE
        oldest[0] = begun[0]
        lost = fit(oldest, heard, phones, ended, reached)
        begun[LOST] = max(begun[LOST], lost)


@uncounted()
def finish(ended: Array, heard: Array, begun: Array) -> None:
    """Set `begun` (PLACES,) to the scores of a text whose last word has ended."""
    begun[0] = ended[0]
    for n in range(1, HISTORY):
        begun[n] = max(ended[n], begun[n - 1] + heard[n, SILENCE])
    begun[LOST] = IMPOSSIBLE


@uncounted()
def rebase(begun: Array, total: np.float32, found: Array) -> None:
    """Set `found` (N,) to scores (N,) relative to a text's `total`; forget those far below."""
    for n in range(len(begun)):
        score = begun[n] - total
        found[n] = score if score > FORGOTTEN else IMPOSSIBLE
