"""Training of the neural language model that a search mixes with the trigram.

Each word of the text is learnt from the words before it in its sentence. What the probabilities of
all words sum to is estimated from some that are drawn by how common they are (importance sampling,
Bengio & Senecal 2003), and is drawn to one, so that the search needs no sum (Devlin et al. 2014).
"""

from collections.abc import Iterable, Iterator, Mapping
from math import ceil, exp, log
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cortado.model.arrays import Array, row_codes
from cortado.model.progress import Progress
from cortado.model.search.language_file import NEURAL
from cortado.model.search.language_model import BEGIN, END, UNKNOWN
from cortado.training.language.lexicon import SPECIAL, spelt

BATCH = 4096  # words
DRAWN = 1024  # words that the sum is estimated from
FLATTENED = 0.9  # power of their frequencies by which they are drawn
PULL = 0.1  # weight of the squared logarithm of the sum
RATE, WARM_UP = 2e-3, 300  # of Adam, falling to 0; updates


class Sizes(NamedTuple):
    """The sizes of a neural language model."""

    rows: int = 16384  # vectors; words that are rarer share the unknown ones'
    vector: int = 128
    units: int = 320
    history: int = 5  # words


SIZES = Sizes()


class Trained(NamedTuple):
    """What `train` returns."""

    arrays: dict[str, Array]  # of the language model's file
    perplexity: float  # of the text while it was learnt, over the last tenth


class FeedForward(nn.Module):
    """The last words (B, N), by rows and newest first, to a vector (B, D) of what follows."""

    def __init__(self, counts: Tensor, sizes: Sizes) -> None:
        """Take how often each row occurs (V,), from which the biases begin."""
        super().__init__()
        self.vectors = nn.Parameter(0.1 * torch.randn(len(counts), sizes.vector))
        self.biases = nn.Parameter((counts.clamp_min(1) / counts.sum()).log())
        self.hidden = nn.Linear(sizes.history * sizes.vector, sizes.units)
        self.output = nn.Linear(sizes.units, sizes.vector)

    def forward(self, words: Tensor) -> Tensor:
        side_by_side = F.embedding(words, self.vectors).flatten(1)
        found: Tensor = self.output(self.hidden(side_by_side).relu())
        return found


def train(
    texts: Iterable[str],
    arrays: Mapping[str, Array],
    letters: str,
    epochs: int,
    progress: Progress,
    sizes: Sizes = SIZES,
) -> Trained:
    """Return further arrays of a language model's file: its neural model, learnt from texts.

    Args:
        texts: sentences, words parted by spaces.
        arrays: those of `estimate`.
        letters: given to it.
        epochs: passes over the texts.
        progress: called with the words done and those to be done.
        sizes: of the model.

    Raises: ValueError for texts without words.
    """
    torch.manual_seed(0)
    rows = _rows(arrays["unigrams"][:, 0], sizes.rows)
    written = _written(texts, spelt(arrays, letters)[0], rows, sizes.history)
    targets = torch.from_numpy(np.flatnonzero(written.numpy() != BEGIN))
    if not len(targets):
        raise ValueError("expected a text with words for a neural language model, got none")
    counts = torch.bincount(written, minlength=int(rows.max()) + 1).float()
    counts[BEGIN] = 0
    model = FeedForward(counts, sizes)
    drawing = counts**FLATTENED / (counts**FLATTENED).sum()
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.99))
    before = torch.arange(1, sizes.history + 1)
    total = epochs * ceil(len(targets) / BATCH)
    warm_up, last_losses = min(WARM_UP, total / 10), list[float]()
    for update, chosen in enumerate(_batches(targets, epochs)):
        progress("neural language model", update * BATCH, total * BATCH)
        rate = RATE * min(1, (update + 1) / warm_up) * (1 - update / total)
        for group in optimizer.param_groups:
            group["lr"] = rate
        output = model(written[chosen[:, None] - before])
        loss, sums = _losses(model, output, written[chosen], drawing)
        optimizer.zero_grad()
        (loss + PULL * sums).backward()
        optimizer.step()
        if update >= 0.9 * total - 1:
            last_losses.append(loss.item())
    progress("neural language model", total * BATCH, total * BATCH)
    return Trained(_arrays(model, rows), exp(sum(last_losses) / len(last_losses)))


def _losses(
    model: FeedForward, output: Tensor, words: Tensor, drawing: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the cross-entropy of words (B,), and the mean of the squared log of what sums to one.

    Args:
        model: the model.
        output: (B, D) of it.
        words: rows of those that follow.
        drawing: (V,) the probability by which others are drawn.
    """
    drawn = torch.multinomial(drawing, DRAWN, replacement=True)
    right = (output * F.embedding(words, model.vectors)).sum(1) + model.biases[words]
    weights = drawing[drawn].log() + log(DRAWN)
    others = torch.addmm(model.biases[drawn] - weights, output, model.vectors[drawn].T)
    others = others.masked_fill(drawn == words[:, None], -torch.inf)
    sums = torch.logaddexp(right, others.logsumexp(1))
    return (sums - right).mean(), (sums**2).mean()


def _rows(unigrams: Array, most: int) -> Array:
    """Return the row of each word (W,): the commonest have their own, the others the unknown's."""
    rows = np.full(len(unigrams), UNKNOWN)
    rows[:SPECIAL] = np.arange(SPECIAL)
    common = SPECIAL + np.argsort(-unigrams[SPECIAL:], kind="stable")[: most - SPECIAL]
    rows[common] = SPECIAL + np.arange(len(common))
    return rows


def _written(texts: Iterable[str], words: Iterable[str], rows: Array, history: int) -> Tensor:
    """Return all words of texts by their rows, sentence after sentence.

    As many beginnings as a history has words stand before each sentence, an end behind it.
    """
    index = {word: int(row) for word, row in zip(words, rows, strict=True) if word}
    beginning = np.full(history, BEGIN, np.int32)
    found = [
        np.array([*beginning, *(index.get(word, UNKNOWN) for word in sentence), END], np.int32)
        for sentence in map(str.split, texts)
        if sentence
    ]
    return torch.from_numpy(np.concatenate([beginning, *found]))


def _batches(targets: Tensor, epochs: int) -> Iterator[Tensor]:
    """Yield the places of words in random order, `BATCH` at a time, for some passes over all."""
    for _ in range(epochs):
        yield from targets[torch.randperm(len(targets))].split(BATCH)


def _arrays(model: FeedForward, rows: Array) -> dict[str, Array]:
    """Return the arrays of a file: vectors in bytes, with the step of each."""
    vectors, steps = row_codes(model.vectors.detach().numpy(), np.float16)
    found: dict[str, Any] = {
        "rows": rows,
        "vectors": vectors,
        "steps": steps,
        "biases": model.biases,
        "hidden": model.hidden.weight.T,
        "hidden_biases": model.hidden.bias,
        "output": model.output.weight.T,
        "output_biases": model.output.bias,
    }
    return {
        NEURAL + name: part.detach().numpy() if isinstance(part, Tensor) else part
        for name, part in found.items()
    }
