"""The loss of a batch of pairs: cross-entropy over all words, over a sample, or with copies."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from cortado.training.text.batches import TextBatch
from cortado.training.text.copying import coverage_loss
from cortado.training.text.model import TextModel
from cortado.training.text.recipe import Training


class Loss(NamedTuple):
    """Sums over a batch."""

    total: Tensor  # what is minimised, in nats
    nats: Tensor  # of the words and ends alone
    words: int  # and ends, that were written


def loss(model: TextModel, batch: TextBatch, training: Training) -> Loss:
    """Return the loss of a batch; noise and the sample of words are for training mode alone."""
    encoded, decoder = model.encoder.encode(batch.source, batch.lengths), model.decoder
    end = decoder.end
    wanted = nn.functional.pad(batch.wanted, (0, 1))
    wanted = wanted.scatter(1, batch.target_lengths.unsqueeze(1), end)
    places = torch.arange(wanted.shape[1], device=wanted.device)
    valid = places <= batch.target_lengths.unsqueeze(1)
    classes = offsets = None
    if model.training and training.sampled:
        classes, offsets = sampled(wanted[valid], end + 1, training.sampled)
        wanted = torch.searchsorted(classes, wanted.clamp(max=end))
    noise = training.noise if model.training else 0.0
    first = model.first(encoded)
    decoded = decoder.teacher_forced(
        encoded.values, encoded.mask, batch.target, noise, first, classes
    )
    logits = decoded.logits if offsets is None else decoded.logits + offsets
    previous = nn.functional.pad(batch.target, (1, 0), value=decoder.start)
    log_probs = model.log_probs(logits, previous, decoded.weights, batch.copies, batch.most_extra)
    nats = -log_probs.gather(2, wanted.unsqueeze(2)).squeeze(2)[valid].sum()
    total = nats
    if training.coverage:
        total = nats + training.coverage * coverage_loss(decoded.weights)[valid].sum()
    return Loss(total, nats, int(valid.sum()))


def sampled(wanted: Tensor, words: int, count: int) -> tuple[Tensor, Tensor]:
    """Return the classes (C,) of a sampled softmax, ascending, and what to add to their logits.

    All words that the batch wants are among them, and `count` of the others at most, drawn without
    a preference. Each of those stands for several, by whose number its exponential is weighed: so
    the softmax's denominator is right on average.

    Source: Jean et al. 2015, with that weight.

    Args:
        wanted: (N,) indices of words that the batch is to write.
        words: of the vocabulary, with the end.
        count: words that are drawn.
    """
    own = torch.zeros(words, dtype=torch.bool, device=wanted.device)
    own[wanted] = True
    others = (~own).nonzero()[:, 0]
    drawn = others[torch.randperm(len(others), device=wanted.device)[:count]]
    weight = torch.zeros(words, device=wanted.device)
    weight[drawn] = torch.tensor(len(others) / max(len(drawn), 1), device=wanted.device).log()
    own[drawn] = True
    classes = own.nonzero()[:, 0]
    return classes, weight[classes]
