"""How strange a stream's voice is to the model, compiled.

What the hypotheses of a search agree on may still be wrong, and with a strange voice it is so more
often. The CTC head shows such a voice: it is less sure of every symbol. So the entropy of its
probabilities is averaged over a stream's frames, each of which counts as much as it is a symbol and
no blank. The mean begins with some symbols of a usual voice, and forgets what is long past, since
others may speak. It outlasts the ends of utterances.
"""

import numpy as np

from cortado.model.arrays import Array
from cortado.model.compiled.functions import log
from cortado.model.compiled.jit import uncounted

EXCESS, SYMBOLS = 0, 1  # of a voice: nats above the usual entropy, over all symbols; their number
USUAL = np.float32(0.9)  # nats: the mean of voices that read, of strangers' recordings, of foreign
FIRST = np.float32(5)  # symbols of a usual voice that a stream begins with
MEMORY = np.float32(100)  # symbols that count at most: some eight seconds of speech
ZERO, ONE = np.float32(0), np.float32(1)


@uncounted()
def listen(probabilities: Array, voice: Array) -> None:
    """Add a frame to a voice (2,), by the CTC head's probabilities (V + 1,), the blank first."""
    entropy, symbol = ZERO, max(ONE - probabilities[0], ZERO)
    for v in range(len(probabilities)):
        entropy -= probabilities[v] * log(probabilities[v])
    voice[EXCESS] += symbol * (entropy - USUAL)
    voice[SYMBOLS] += symbol
    if voice[SYMBOLS] > MEMORY:
        voice[EXCESS] *= MEMORY / voice[SYMBOLS]
        voice[SYMBOLS] = MEMORY


@uncounted()
def strangeness(voice: Array) -> np.float32:
    """Return the nats by which the entropy at a voice's symbols is above the usual."""
    return voice[EXCESS] / (voice[SYMBOLS] + FIRST)
