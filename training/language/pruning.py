"""Pruning of a language model to a size: what the text would miss least goes first.

An n-gram's worth is what the text would lose without it (`Estimate`). N-grams are kept in the order
of their worth for each byte, as long as there is room. What a dropped one had of its own returns to
its history's share for shorter n-grams, so that probabilities still sum to one.
"""

from collections.abc import Mapping

import numpy as np

from cortado.model.arrays import Array
from cortado.model.search.language_file import bigrams_of
from cortado.training.language.estimate import Estimate
from cortado.training.language.file import compact, packed

HEADER = 2_000  # bytes that a file takes besides its arrays, at most


def fitted(model: Estimate, limit: int) -> dict[str, Array]:
    """Return the arrays of a file that has at most `limit` bytes.

    Args:
        model: `estimate`'s; its arrays may have pronunciations, too.
        limit: bytes.

    Raises:
        ValueError: the words alone take more.
    """
    word, starts, ends = (
        compact(part).itemsize
        for part in (
            model.arrays["seconds"],
            np.diff(model.arrays["starts"]),
            np.diff(model.arrays["ends"]),
        )
    )
    none = np.zeros(len(model.bigrams), bool), np.zeros(len(model.trigrams), bool)
    bare = packed(pruned(model.arrays, *none)) | {"starts": np.zeros(0)}
    least = HEADER + sum(compact(part).nbytes for part in bare.values())
    least += starts * len(model.arrays["unigrams"])
    if least > limit:
        raise ValueError(f"expected room for the words, {least / 1e6:.2f} MB, got {limit / 1e6} MB")
    pair, three = word + 2 + ends, word + 1  # bytes; a logarithm takes one
    worths = model.trigrams / three
    bases = np.maximum(model.bigrams / pair, supported(model.arrays, worths))
    every = np.concatenate([bases, worths])
    order = np.argsort(-every, kind="stable")  # of the same worth, bigrams come first
    sizes = np.cumsum(np.where(order < len(bases), pair, three))
    stay = np.zeros(len(every), bool)
    stay[order[: np.searchsorted(sizes, limit - least, "right")]] = True
    return packed(pruned(model.arrays, stay[: len(bases)], stay[len(bases) :]))


def pruned(
    arrays: Mapping[str, Array], kept_bigrams: Array, kept_trigrams: Array
) -> dict[str, Array]:
    """Return the arrays of a language model of which some n-grams are dropped.

    Args:
        arrays: those of `estimate`.
        kept_bigrams: (N,) whether each bigram stays.
        kept_trigrams: (M,) whether each trigram stays; with one that does, the bigrams of its first
            two and of its last two words stay.
    """
    first, history, lower = bigrams_of(arrays)
    logs = {name: arrays[name].astype(float) for name in ("unigrams", "bigrams", "trigrams")}
    unigram, left1 = np.exp(logs["unigrams"]).T
    bigram, left2 = np.exp(logs["bigrams"]).T
    single = unigram[arrays["seconds"]]
    own2 = bigram - left1[first] * single
    own3 = np.exp(logs["trigrams"]) - left2[history] * bigram[lower]
    left1 = _returned(left1, first, own2, ~kept_bigrams)
    left2 = _returned(left2, history, own3, ~kept_trigrams)
    bigram = own2 + left1[first] * single
    trigram = own3 + left2[history] * bigram[lower]
    index = np.cumsum(kept_bigrams) - 1  # of the bigrams that stay
    return {
        **arrays,
        "unigrams": np.stack([logs["unigrams"][:, 0], np.log(left1)], 1).astype(np.float32),
        "starts": np.searchsorted(first[kept_bigrams], np.arange(len(unigram) + 1)),
        "seconds": arrays["seconds"][kept_bigrams],
        "bigrams": np.log(np.stack([bigram, left2], 1)[kept_bigrams]).astype(np.float32),
        "ends": np.searchsorted(index[history[kept_trigrams]], np.arange(kept_bigrams.sum() + 1)),
        "thirds": arrays["thirds"][kept_trigrams],
        "trigrams": np.log(trigram[kept_trigrams]).astype(np.float32),
    }


def supported(arrays: Mapping[str, Array], worths: Array) -> Array:
    """Return for each bigram the highest worth of a trigram that stands on it."""
    _, history, lower = bigrams_of(arrays)
    found = np.full(len(arrays["seconds"]), -np.inf)
    np.maximum.at(found, history, worths)
    np.maximum.at(found, lower, worths)
    return found


def _returned(left: Array, history: Array, own: Array, dropped: Array) -> Array:
    """Return what histories leave to shorter n-grams when some that they had are dropped."""
    more = np.bincount(history[dropped], own[dropped], len(left))
    return np.clip(left + more, 1e-30, 1)
