"""The pointer-generator (See, Liu & Manning 2017): write a word, or copy one of the source.

    P(w) = (1 - c) P_vocabulary(w) + c sum over j with source word w of a_j / A
    c = (1 - g) A,    A = sum_j a_j

g is a sigmoid of what the output layer reads and of the word before (equation 8). a are the weights
of any attention: a monotonic one's expected weights in training, those of its hard stops in
decoding. Where its scan ran off the end, or may have, A < 1, and what is not attended is written.
With A = 1 it is equation 9 of the paper.
"""

import torch
from torch import Tensor, nn

LEAST = 1e-12  # of a probability, before its logarithm


def mixture(logits: Tensor, gate: Tensor, weights: Tensor, copies: Tensor, size: int) -> Tensor:
    """Return the log-probabilities (B, U, N) of words, the end, and the sources' other words.

    Args:
        logits: (B, U, V + 1) of V words and the end.
        gate: (B, U, 1) what g is the sigmoid of.
        weights: (B, U, T) of the source's words.
        copies: (B, T) indices of the source's words: below V, or from V + 1 on those that the
            vocabulary lacks; any on padding, where the weights are zero.
        size: N, V + 1 and the most other words of one source.
    """
    written = logits.softmax(-1)
    copied = (1 - gate.sigmoid()) * weights
    total = nn.functional.pad(
        (1 - copied.sum(-1, keepdim=True)) * written, (0, size - written.shape[-1])
    )
    places = copies.unsqueeze(1).expand_as(copied)
    return total.scatter_add(2, places, copied).clamp(min=LEAST).log()


def coverage_loss(weights: Tensor) -> Tensor:
    """Return (B, U) the attention of each symbol (B, U, T) to what those before it attended to.

    Source: See et al. 2017, equation 12. The coverage does not enter the energies, as it does in
    equation 11 there: so any attention has this loss.
    """
    covered = weights.cumsum(1) - weights
    return torch.minimum(weights, covered).sum(2)
