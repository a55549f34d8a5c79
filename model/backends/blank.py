"""Whether the CTC head gives the blank at an encoder frame, which endpoint rules use."""

import math
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from cortado.model.checkpoint_reader import Parameters

BLANK = 0.5  # probability of the blank from which a frame counts as one without a character
LANES = 16  # float32 in the widest vector


class Head(NamedTuple):
    """The CTC head: outputs are the blank, V symbols, and padding up to whole vectors."""

    weight: NDArray[np.float32]  # (H, P)
    bias: NDArray[np.float32]  # (P,)


def head(recognizer: Parameters) -> Head:
    """Return the CTC head of a recogniser."""
    tensors = recognizer.state_dict()
    parameters = (np.asarray(tensors[f"ctc.{name}"], np.float32) for name in ("weight", "bias"))
    weight, bias = (np.roll(x, 1, axis=0) for x in parameters)
    missing = -len(bias) % LANES
    return Head(
        np.ascontiguousarray(np.pad(weight, ((0, missing), (0, 0))).T),
        np.pad(bias, (0, missing), constant_values=-np.inf),
    )


def blanks(frames: NDArray[np.float32], head: Head) -> NDArray[np.bool_]:
    """Return (R,) whether the CTC head gives the blank at encoder frames (R, H).

    Each row is summed in the same order whatever the batch, unlike in a library's product.
    """
    return _blanks(np.ascontiguousarray(frames), *head, BLANK)


@numba.njit(cache=True, nogil=True)
def _blanks(
    frames: NDArray[np.float32],
    weight: NDArray[np.float32],
    bias: NDArray[np.float32],
    least: float,
) -> Any:
    found = np.empty(len(frames), np.bool_)
    logits = np.empty_like(bias)
    for row in range(len(frames)):
        logits[:] = bias
        for h in range(len(weight)):
            value = frames[row, h]
            for v in range(len(bias)):
                logits[v] += value * weight[h, v]
        blank, others = logits[0], 0.0
        for v in range(1, len(bias)):
            others += math.exp(min(logits[v] - blank, 80.0))
        found[row] = least * (1 + others) <= 1
    return found
