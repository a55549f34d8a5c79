"""The lattice-free maximum mutual information criterion, on the head of phones.

It asks how much likelier the phones that were said are than all phones that could have been said
(Povey et al. 2016). A path gives each frame a phone. Its score is the sum of the head's logits and
of a trigram's log-probabilities where the phone changes. The denominator sums over all paths, the
numerator over those that stay near the aligner's.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from cortado.training.data.tied_states import UNKNOWN
from cortado.training.learning.path_sums import CompiledLogSum

TOLERANCE = 1  # encoder frames by which a phone may begin sooner or end later than aligned
BACK_OFF = 5.0  # occurrences by which a shorter context counts


def phone_trigram(paths: Iterable[NDArray[Any]], phones: int) -> NDArray[np.float32]:
    """Return the probability (P, P, P) of a phone behind two others, [before, last, next].

    None follows itself: it lasts.

    Args:
        paths: the phone of each frame.
        phones: outputs of the head.
    """
    counts = np.zeros(phones**3, np.int64)
    for path in paths:
        said = path[np.flatnonzero(np.diff(path, prepend=-1))].astype(np.int64)
        triples = (said[:-2] * phones + said[1:-1]) * phones + said[2:]
        counts += np.bincount(triples, minlength=len(counts))
    three = counts.reshape(phones, phones, phones).astype(np.float64)
    two, one = three.sum(0), three.sum((0, 1))
    changes = 1 - np.eye(phones)
    found = (one + 1) / (one + 1).sum()  # (P,), then with one more context each
    for more in (two, three):
        found = (more + BACK_OFF * found) / (more.sum(-1, keepdims=True) + BACK_OFF) * changes
        found /= found.sum(-1, keepdims=True)
    return found.astype(np.float32)


def sequence_loss(head: nn.Linear, encoded: Tensor, targets: Tensor, trigram: Tensor) -> Tensor:
    """Return the negative log-probability of the phones that were said, in nats per aligned frame.

    Args:
        head: of silence and phones.
        encoded: (B, T, H) of the encoder.
        targets: (B, T) the aligner's phone of each frame, UNKNOWN where there is none.
        trigram: (P, P, P) of `phone_trigram`.
    """
    known = targets != UNKNOWN
    if not known.any():
        return encoded.sum() * 0
    scores = head(encoded.to(head.weight.dtype))
    far = ~near(targets, scores.shape[2])
    near_ones = scores.masked_fill(far & known.unsqueeze(2), -torch.inf)
    every, said = (log_sum(one, known, trigram) for one in (scores, near_ones))
    return (every - said).sum() / known.sum()


def near(targets: Tensor, phones: int) -> Tensor:
    """Return (B, T, P) whether a phone is aligned within TOLERANCE of each frame."""
    at = nn.functional.one_hot(targets.clamp(min=0), phones) * (targets != UNKNOWN).unsqueeze(2)
    around = nn.functional.max_pool1d(
        at.transpose(1, 2).float(), 2 * TOLERANCE + 1, stride=1, padding=TOLERANCE
    )
    return around.transpose(1, 2) > 0


def log_sum(scores: Tensor, known: Tensor, trigram: Tensor) -> Tensor:
    """Return the log (B,) of the sum over all paths of phones.

    Args:
        scores: (B, T, P) log-likelihood of each phone at each frame, up to a constant a frame.
        known: (B, T) the frames that count, at least one in each row that counts.
        trigram: (P, P, P) of `phone_trigram`.
    """
    sums = CompiledLogSum if scores.device.type == "cpu" else LogSum
    found: Tensor = sums.apply(scores, known, trigram)  # type: ignore[no-untyped-call]
    return found


class LogSum(torch.autograd.Function):
    """Forward and backward sums, normalised at each frame.

    Sums (P, B, P) are of paths whose last two phones are [last but one, last]. A path that
    changes moves from [a, b] to [b, c], so a change is a product for each b.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, known: Tensor, trigram: Tensor) -> Tensor:
        most = scores.amax(2, keepdim=True)
        heard = (scores - most).exp()  # (B, T, P)
        change = trigram.transpose(0, 1).contiguous()  # [last, before, next]
        pairs = torch.einsum("abc->bc", trigram)[:, None] / trigram.sum()
        sums = pairs.expand(-1, len(scores), -1)
        total = scores.new_zeros(len(scores))
        alphas = []
        for t in range(scores.shape[1]):
            moved = torch.bmm(sums.permute(2, 1, 0), change)
            new = (sums + moved) * heard[:, t]
            mass = new.sum((0, 2))  # (B,)
            counts = known[:, t]
            total = total + torch.where(counts, mass.log() + most[:, t, 0], 0)
            new = new / mass[None, :, None]
            sums = torch.where(counts[None, :, None], new, sums)
            alphas.append(sums)
        ctx.save_for_backward(heard, known, change, *alphas)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        heard, known, change, *alphas = ctx.saved_tensors
        posteriors = torch.zeros_like(heard)
        sums = torch.ones_like(alphas[0])
        for t in range(heard.shape[1] - 1, -1, -1):
            counts = known[:, t]
            both = (alphas[t] * sums).sum(0)  # (B, P)
            posteriors[:, t] = both / both.sum(1, keepdim=True) * counts.unsqueeze(1)
            later = sums * heard[:, t]
            moved = torch.bmm(later, change.transpose(1, 2)).permute(2, 1, 0)
            new = later + moved
            new = new / new.sum((0, 2))[None, :, None]
            sums = torch.where(counts[None, :, None], new, sums)
        return posteriors * gradient[:, None, None], None, None
