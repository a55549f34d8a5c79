"""Batches of pairs of like lengths, in an order that a seed and an epoch fix."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from cortado.training.text.model import Vocabularies
from cortado.training.text.readers import Pair

POOL = 50  # batches whose pairs are sorted by length together


class TextBatch(NamedTuple):
    """Pairs as indices of words; padding is 0."""

    source: Tensor  # (B, T)
    lengths: Tensor  # (B,) of the sources
    copies: Tensor  # (B, T) the source's words as the target's vocabulary, and the copy, name them
    target: Tensor  # (B, U) what the decoder reads: words that its vocabulary lacks are unknown
    wanted: Tensor  # (B, U) what it is to write: of those, copies where it copies
    target_lengths: Tensor  # (B,)
    extra: tuple[tuple[str, ...], ...]  # of each source, the words that the vocabulary lacks

    @property
    def most_extra(self) -> int:
        """The most words of one source that the vocabulary lacks."""
        return max(map(len, self.extra))


def collate(pairs: Sequence[Pair], words: Vocabularies, copies: bool) -> TextBatch:
    """Return a batch; where nothing is copied there are no extra words."""
    extra = tuple(words.target.lacking(pair.source) if copies else () for pair in pairs)
    each = list(zip(pairs, extra, strict=True))
    source = [words.source.encode(pair.source) for pair in pairs]
    target = [words.target.encode(pair.target) for pair in pairs]
    return TextBatch(
        _padded(source),
        torch.tensor(list(map(len, source))),
        _padded([words.target.encode(pair.source, new) for pair, new in each]),
        _padded(target),
        _padded([words.target.encode(pair.target, new) for pair, new in each]),
        torch.tensor(list(map(len, target))),
        extra,
    )


def _padded(rows: Sequence[Sequence[int]]) -> Tensor:
    return nn.utils.rnn.pad_sequence(
        [torch.tensor(row, dtype=torch.long) for row in rows], batch_first=True
    )


def ordered(pairs: Sequence[Pair], size: int, seed: int) -> Iterator[list[Pair]]:
    """Yield batches for ever: each epoch has every pair once; the seed fixes the order."""
    epoch = 0
    while True:
        random = np.random.default_rng((seed, epoch))
        order = random.permutation(len(pairs))
        batches = []
        for begin in range(0, len(order), size * POOL):
            pool = sorted(
                order[begin : begin + size * POOL],
                key=lambda k: (len(pairs[k].target), len(pairs[k].source)),
            )
            batches += [pool[k : k + size] for k in range(0, len(pool), size)]
        for place in random.permutation(len(batches)):
            yield [pairs[k] for k in batches[place]]
        epoch += 1
