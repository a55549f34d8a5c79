"""The language model that a decoder has learnt from its transcripts, which a search takes off.

A decoder's probability of a symbol comes from the sound and from the symbols before it: it has
learnt a language model of its own. Beside another one, words would be weighed twice, and the
transcripts count for more than the larger text. So the search divides by the probability that a
trigram of the transcripts' letters gives a symbol, to a power (the density ratio of McDermott et
al. 2019, whose source-domain language model this is). The power goes with the weight of the other
language model: without one, nothing is taken off.
"""

import math
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from cortado.model.arrays import Array
from cortado.model.compiled.jit import uncounted

FILE = "source.safetensors"  # in a checkpoint's folder
ORDER = 3  # symbols of an n-gram
NONE = np.zeros((0, 0, 0), np.float32)


def read(path: Path, vocabulary: int) -> tuple[Array, float]:
    """Return a file's scores of each symbol after two others, and their weight.

    Args:
        path: of the file.
        vocabulary: V, the number of symbols.

    Returns:
        (V + 1, V + 1, V) float32 in nats, by the last symbol and the one before, each plus one, 0
        where there is none; the share of the other language model's weight that they have.

    Raises:
        ValueError: the file is broken or of another vocabulary.
    """
    try:
        with safe_open(path, "numpy") as file:
            scores = file.get_tensor("scores").astype(np.float32)
            share = float((file.metadata() or {})["share"])
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise ValueError(f"expected a language model of letters in {path}, got {error}") from error
    shape = (vocabulary + 1, vocabulary + 1, vocabulary)
    if scores.shape != shape or not np.isfinite(scores).all():
        raise ValueError(f"expected finite numbers {shape} in {path}, got {scores.shape}")
    if not (math.isfinite(share) and share >= 0):
        raise ValueError(f"expected a share of 0 or more in {path}, got {share}")
    return scores, share


@uncounted(forceinline=True)
def take_off(source: Array, last: Array, scores: Array) -> None:
    """Subtract from (V,) scores those of each symbol after the last ones, newest first."""
    known = source[last[0] + 1, last[1] + 1]
    for v in range(len(scores)):
        scores[v] -= known[v]
