"""The heads of letters (CTC) and of phones at encoder frames; whether a frame has a character."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cortado.model.checkpoint_reader import Parameters
from cortado.model.compiled.jit import cached_njit

BLANK = 0.5  # probability of the blank from which a frame counts as one without a character
LANES = 16  # float32 in the widest vector


class Head(NamedTuple):
    """Heads: outputs are the blank, V symbols, perhaps phones, and padding to whole vectors."""

    weight: NDArray[np.float32]  # (H, P)
    bias: NDArray[np.float32]  # (P,)


def head(recognizer: Parameters, phones: bool = False) -> Head:
    """Return the CTC head of a recogniser; with `phones`, its phone head's outputs behind it."""
    weight, bias = rows_of_heads(recognizer.state_dict(), phones)
    missing = -len(bias) % LANES
    return Head(
        np.ascontiguousarray(np.pad(weight, ((0, missing), (0, 0))).T),
        np.pad(bias, (0, missing), constant_values=-np.inf),
    )


def rows_of_heads(tensors: Mapping[str, Any], phones: bool) -> tuple[Any, Any]:
    """Return the weights (V + 1, H) and biases (V + 1,) of the CTC head, the blank first.

    With `phones`, those of the phone head follow, where there is one.
    """
    of_ctc = (np.asarray(tensors[f"ctc.{name}"], np.float32) for name in ("weight", "bias"))
    weight, bias = (np.roll(x, 1, axis=0) for x in of_ctc)
    if not phones or "phones.weight" not in tensors:
        return weight, bias
    of_phones = (np.asarray(tensors[f"phones.{name}"], np.float32) for name in ("weight", "bias"))
    more_weight, more_bias = of_phones
    return np.concatenate([weight, more_weight]), np.concatenate([bias, more_bias])


def logits(frames: NDArray[np.float32], head: Head) -> NDArray[np.float32]:
    """Return the CTC head's logits (R, P) at encoder frames (R, H).

    Each row is summed in the same order whatever the batch, unlike in a library's product.
    """
    return _logits(np.ascontiguousarray(frames), *head)


def blanks(frames: NDArray[np.float32], head: Head) -> NDArray[np.bool_]:
    """Return (R,) whether the CTC head gives the blank at encoder frames (R, H)."""
    return _blanks(logits(frames, head), BLANK)


@cached_njit()
def _logits(
    frames: NDArray[np.float32], weight: NDArray[np.float32], bias: NDArray[np.float32]
) -> Any:
    found = np.empty((len(frames), len(bias)), np.float32)
    for row in range(len(frames)):
        found[row] = bias
        for h in range(len(weight)):
            value = frames[row, h]
            for v in range(len(bias)):
                found[row, v] += value * weight[h, v]
    return found


@cached_njit()
def _blanks(logits: NDArray[np.float32], least: float) -> Any:
    found = np.empty(len(logits), np.bool_)
    for row in range(len(logits)):
        blank, others = logits[row, 0], 0.0
        for v in range(1, logits.shape[1]):
            others += math.exp(min(logits[row, v] - blank, 80.0))
        found[row] = least * (1 + others) <= 1
    return found
