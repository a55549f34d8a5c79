"""The file of a language model: its arrays in few bytes, and how a search weighs it."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors.numpy import save

from cortado.model.arrays import Array
from cortado.model.search.language_file import BOUNDS, FORMAT, PACKED, SHARE, STEPS, VECTORS
from cortado.model.whole_file import write_whole


class SearchWeights(NamedTuple):
    """How a search weighs a language model; what its file says."""

    weight: float = 0.3
    bonus: float = 0.6
    leaving: float = -8.0
    letter: float = -2.0
    neural_share: float = 0.5  # of the neural model in the mixture, where there is one


def write(path: Path, arrays: Mapping[str, Array], letters: str, weights: SearchWeights) -> None:
    """Write a language model's file: logarithms in 16 bits, words in as few bytes as they need."""
    about = {name: str(value) for name, value in weights._asdict().items()}
    if VECTORS not in arrays:
        del about[SHARE]
    about |= {"format": PACKED if is_packed(arrays) else FORMAT, "letters": letters}
    write_whole(path, save({name: compact(part) for name, part in arrays.items()}, about))


def packed(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return arrays that take less in a file: counts for bounds, bytes for logarithms."""
    bounds = {name: np.diff(arrays[name]) for name in BOUNDS if name in arrays}
    logs = {
        name: np.clip(np.rint(-STEPS * arrays[name]), 0, 255).astype(np.uint8)
        for name in ("bigrams", "trigrams")
    }
    return {**arrays, **bounds, **logs, "words": np.maximum(arrays["words"], 0)}


def is_packed(arrays: Mapping[str, Array]) -> bool:
    """Return whether arrays are those of `packed`."""
    return arrays["bigrams"].dtype.kind == "u"


def compact(part: Array) -> Array:
    """Return an array as it is in a file."""
    if part.dtype.kind == "f":
        part = part.astype(np.float16)
    elif part.dtype == np.int8:
        pass
    elif len(part) and part.min() >= 0 and part.max() < 1 << 16:
        part = part.astype(np.uint8 if part.max() < 1 << 8 else np.uint16)
    else:
        part = part.astype(np.int32)
    return np.ascontiguousarray(part)
