"""Estimation of the source model: the letters of the transcripts that a decoder has learnt from.

A trigram by the discounts of Witten & Bell (1991), interpolated.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from cortado.model.arrays import Array
from cortado.model.search.source_model import ORDER
from cortado.model.whole_file import write_whole

SHARE = 1 / 3  # of the weight of the search's language model
NEVER = np.log(1e-6)  # nats, a bound


def estimate(texts: Iterable[str], symbols: Sequence[str]) -> Array:
    """Return the scores of a symbol after two others, (V + 1, V + 1, V) in nats.

    They are relative to the text's mean, so that a text's length is weighed as before. The first
    dimension is the last symbol plus one, the second the one before; 0 is none. A space follows
    each text; what is no symbol is left out.

    Args:
        texts: the transcripts.
        symbols: V of them, letters.

    Without any symbol in the texts, all scores are 0.
    """
    index = {symbol: number for number, symbol in enumerate(symbols, 1)}
    before = [0] * (ORDER - 1)
    rows = (
        [*before, *(index[letter] for letter in f"{text} " if letter in index)] for text in texts
    )
    written = np.array([number for row in rows for number in row], np.int64)
    at = np.flatnonzero(written)
    count = len(symbols)
    probabilities = np.full(count, 1 / count)
    for order in range(ORDER):
        history = tuple(written[at - 1 - n] for n in range(order))
        uses = np.zeros((count + 1,) * order + (count,))
        np.add.at(uses, (*history, written[at] - 1), 1)
        total, kinds = uses.sum(-1, keepdims=True), (uses > 0).sum(-1, keepdims=True)
        shorter = np.broadcast_to(
            probabilities[..., None, :] if order else probabilities, uses.shape
        )
        seen = (uses + kinds * shorter) / np.maximum(total + kinds, 1)
        probabilities = np.where(total > 0, seen, shorter)
    scores: Array = np.maximum(np.log(probabilities), NEVER)
    return scores - (uses * scores).sum() / uses.sum() if len(at) else np.zeros_like(scores)


def write(path: Path, scores: Array, share: float = SHARE) -> None:
    """Write a source model's file, in 16 bits."""
    write_whole(path, save({"scores": scores.astype(np.float16)}, {"share": str(share)}))
