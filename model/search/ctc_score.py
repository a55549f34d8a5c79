"""The CTC head's probability of a hypothesis' text, frame by frame, compiled.

The head gives each frame a probability of the blank and of each symbol. The probability of a text
is a sum over all ways to lay it on the frames so far; two forward variables hold it, of the ways
that end in a blank and of those that end in the text's last symbol (Graves et al. 2006). Joint
decoding weighs it beside the attention's probability (Watanabe et al. 2017).

A stop of the attention and the head's own frame for a symbol lie a few frames apart:

- The stop may be later. So the variables of the last HISTORY frames are remembered, and a symbol
  that a hypothesis writes may lie on any of them.
- The stop may be earlier. So the variables of the text without its last 1 to LAG symbols are
  updated, too, and count for a share of their probability: the symbols may yet be heard.

Probabilities are relative to the text's own at the newest frame, so that they neither vanish nor
grow. A text's score is a sum of logarithms in nats, which the caller keeps.
"""

import numpy as np

from cortado.model.arrays import Array
from cortado.model.compiled.functions import exp, log
from cortado.model.compiled.jit import uncounted

HISTORY = 6  # frames that are remembered, the newest included
LAG = 3  # symbols that the head may not have heard yet
PLACES = HISTORY + LAG  # the whole text at each frame, oldest first; then without 1 to LAG symbols
NOW = HISTORY - 1  # the place of the whole text at the newest frame
BLANK, SYMBOL = 0, 1  # variables of a place: ways that end in a blank, and in the last symbol
NO_SYMBOL = -1  # before a text's first symbol
LEAST_SHARE = np.float32(1e-5)  # a frame's probability of anything: HISTORY of them fit a float32
LEAST_GAIN = np.float32(1e-30)  # a bound against rounding
ZERO, ONE = np.float32(0), np.float32(1)


@uncounted()
def probabilities(logits: Array, found: Array) -> None:
    """Set `found` (V + 1,) to the probabilities of (V + 1,) logits, the blank first."""
    most, total = logits[0], ZERO
    for v in range(1, len(found)):
        most = max(most, logits[v])
    for v in range(len(found)):
        found[v] = exp(logits[v] - most)
        total += found[v]
    total = max(total, LEAST_SHARE)  # of what is no sound
    for v in range(len(found)):
        found[v] = max(found[v] / total, LEAST_SHARE)


def begin(forward: Array, last: Array) -> None:
    """Set (..., PLACES, 2) variables and (..., LAG + 1) last symbols to those of empty texts."""
    forward[:] = 0
    forward[..., NOW, BLANK] = 1
    last[:] = NO_SYMBOL


@uncounted()
def advance(forward: Array, last: Array, now: Array, unheard: np.float32) -> np.float32:
    """Advance a text's variables (PLACES, 2) by a frame; return what its score gains, in nats.

    Args:
        forward: changed in place.
        last: (LAG + 1,) the text's last symbols, newest first.
        now: (V + 1,) the frame's probabilities.
        unheard: the share that counts of a text without its last symbol.
    """
    whole = forward[NOW, BLANK], forward[NOW, SYMBOL]
    total, share = ZERO, ONE
    for n in range(LAG + 1):
        place, symbol = NOW + n, last[n]
        blank, ended = forward[place, BLANK], forward[place, SYMBOL]
        new = ZERO
        if symbol != NO_SYMBOL:
            new = ended
            if n < LAG:
                new += forward[place + 1, BLANK]
                if last[n + 1] != symbol:
                    new += forward[place + 1, SYMBOL]
            new *= now[symbol + 1]
        forward[place, BLANK], forward[place, SYMBOL] = (blank + ended) * now[0], new
        total += share * (forward[place, BLANK] + new)
        share *= unheard
    for n in range(NOW - 1):
        forward[n, BLANK], forward[n, SYMBOL] = forward[n + 1, BLANK], forward[n + 1, SYMBOL]
    forward[NOW - 1, BLANK], forward[NOW - 1, SYMBOL] = whole
    return _normalised(forward, total)


@uncounted()
def _normalised(forward: Array, total: np.float32) -> np.float32:
    """Divide a text's variables by its own probability; return the logarithm of that."""
    total = max(total, LEAST_GAIN)
    factor = ONE / total
    for n in range(PLACES):
        forward[n, BLANK] *= factor
        forward[n, SYMBOL] *= factor
    return log(total)


@uncounted()
def _unheard(forward: Array, unheard: np.float32) -> np.float32:
    """Return the probability of a text of which a symbol more is not heard yet."""
    total, share = ZERO, unheard
    for n in range(LAG):
        total += share * (forward[NOW + n, BLANK] + forward[NOW + n, SYMBOL])
        share *= unheard
    return total


@uncounted()
def gains(
    forward: Array, last: Array, frames: Array, unheard: np.float32, work: Array, found: Array
) -> None:
    """Set `found` (V,) to what a text's score gains with each symbol more, in nats.

    Args:
        forward: (PLACES, 2) the text's variables.
        last: (LAG + 1,) its last symbols.
        frames: (HISTORY - 1, V + 1) probabilities of the newest frames, oldest first.
        unheard: the share that counts of a text without its last symbol.
        work: (2, V) memory.
        found: set.
    """
    blanks, ended = work[BLANK], work[SYMBOL]
    blanks[:], ended[:] = ZERO, ZERO
    for n in range(NOW):
        before, now = forward[n, BLANK] + forward[n, SYMBOL], frames[n]
        for v in range(len(found)):
            old = ended[v]
            ended[v] = (old + before) * now[v + 1]
            blanks[v] = (blanks[v] + old) * now[0]
        if last[0] != NO_SYMBOL:  # a symbol that is repeated has a blank between
            ended[last[0]] -= forward[n, SYMBOL] * now[last[0] + 1]
    rest = _unheard(forward, unheard)
    for v in range(len(found)):
        found[v] = log(max(max(ended[v], ZERO) + blanks[v] + rest, LEAST_GAIN))


@uncounted()
def extend(
    forward: Array, last: Array, frames: Array, symbol: int, unheard: np.float32, new: Array
) -> None:
    """Set `new` (PLACES, 2) to the variables of a text with a symbol more; see `gains`."""
    new[0, BLANK], new[0, SYMBOL] = ZERO, ZERO
    for n in range(NOW):
        before, now = forward[n, BLANK], frames[n]
        if last[0] != symbol:
            before += forward[n, SYMBOL]
        new[n + 1, SYMBOL] = (new[n, SYMBOL] + before) * now[symbol + 1]
        new[n + 1, BLANK] = (new[n, BLANK] + new[n, SYMBOL]) * now[0]
    for n in range(LAG):
        new[NOW + 1 + n, BLANK] = forward[NOW + n, BLANK]
        new[NOW + 1 + n, SYMBOL] = forward[NOW + n, SYMBOL]
    total = new[NOW, BLANK] + new[NOW, SYMBOL] + _unheard(forward, unheard)
    _normalised(new, total)
