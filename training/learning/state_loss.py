"""Losses of what phone is said, on the encoder's frames: a head of tied states, and one of phones.

The head of tied states is used in training only; checkpoints lack it. That of phones weighs
pronunciations in the search (model/search/pronunciation.py).

Frame by frame it learns what is being said from an aligner's states (training/alignment), as the
networks of hybrid recognisers do (Dahl et al. 2012), some frames late, as recurrent ones may
(Sak et al. 2014). Spelling says little about sound; the states tell the encoder what to hear.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from cortado.training.data.tied_states import UNKNOWN

SMOOTHING = 0.1  # of the targets: an aligner's boundaries are not certain


class StateHead(nn.Module):
    """Logits of tied states on the encoder's output frames, under their name in snapshots."""

    def __init__(self, width: int, states: int) -> None:
        super().__init__()
        self.output = nn.Linear(width, states)


def phones_of(states: Tensor, phones: Tensor) -> Tensor:
    """Return what phones tied states belong to, by those of all states (S,); UNKNOWN stays."""
    return torch.where(states == UNKNOWN, UNKNOWN, phones[states.clamp(min=0)])


def frame_loss(head: nn.Linear, encoded: Tensor, targets: Tensor) -> Tensor:
    """Return the cross-entropy of a head per aligned frame, in nats.

    Args:
        head: its outputs are tied states, or silence and the phones.
        encoded: (B, T', H) of the encoder.
        targets: (B, T') the output that stands for what its frames say, UNKNOWN where none does.
    """
    known = targets != UNKNOWN
    if not known.any():
        return encoded.sum() * 0
    return cross_entropy(head(encoded[known].float()), targets[known], label_smoothing=SMOOTHING)
