"""Losses of what phone is said, on the encoder's frames: a head of tied states, and one of phones.

The head of tied states is used in training only; checkpoints lack it. That of phones weighs
pronunciations in the search (model/search/pronunciation.py).

Frame by frame it learns what is being said from an aligner's states (training/alignment), as the
networks of hybrid recognisers do (Dahl et al. 2012), some frames late, as recurrent ones may
(Sak et al. 2014). Spelling says little about sound; the states tell the encoder what to hear.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from cortado.model.features.framing import FRAMES_PER_STEP
from cortado.training.data.tied_states import UNKNOWN, States
from cortado.training.learning.device import mixed_precision
from cortado.training.learning.losses import add
from cortado.training.learning.recipe import Recipe
from cortado.training.learning.sequence_loss import phone_trigram, sequence_loss
from cortado.training.learning.stage import Stage

SMOOTHING = 0.1  # of the targets: an aligner's boundaries are not certain


class StateHead(nn.Module):
    """Logits of tied states on the encoder's output frames, under their name in snapshots."""

    def __init__(self, width: int, states: int) -> None:
        super().__init__()
        self.output = nn.Linear(width, states)


class PhoneLosses:
    """What a run learns of phones, from an aligner's states of its recordings."""

    def __init__(
        self,
        recipe: Recipe,
        states: Sequence[States],
        phones_of_states: Sequence[int],
        device: torch.device,
    ) -> None:
        """Draw a head of tied states.

        Args:
            recipe: whose stages weigh the losses.
            states: of each corpus' frames.
            phones_of_states: the output of the recogniser's phone head for each tied state.
            device: where it computes.
        """
        # Those that the corpora have may be fewer: a run goes on when one of them is left out.
        count = max(len(phones_of_states), *(1 + int(one.max(initial=0)) for one in states))
        self.head = StateHead(recipe.model.encoder.width, count).to(device)
        self._phones = torch.tensor(phones_of_states, device=device)
        self._trigram = torch.empty(0)  # of the sequence criterion, where a stage has that
        if any(stage.mmi for stage in recipe.stages):
            phones = np.array(phones_of_states)
            paths = (phones[one[one != UNKNOWN][::FRAMES_PER_STEP]] for one in states)
            found = phone_trigram(paths, recipe.model.phones)
            self._trigram = torch.from_numpy(found).to(device)

    def add_to(
        self,
        parts: dict[str, Tensor],
        phones: nn.Linear | None,
        states: Tensor,
        stage: Stage,
        encoded: Tensor,
    ) -> None:
        """Add a stage's losses of phones to those of a batch.

        Args:
            parts: of the batch.
            phones: the recogniser's head, if it has one.
            states: (B, T') of the batch.
            stage: weighs the losses.
            encoded: (B, T', H) of the encoder.
        """
        if stage.states:
            add(parts, "states", stage.states, frame_loss(self.head.output, encoded, states))
        if phones is None or not (stage.states or stage.mmi):
            return
        targets = phones_of(states, self._phones)
        if stage.mmi:
            add(parts, "mmi", stage.mmi, sequence_loss(phones, encoded, targets, self._trigram))
        else:
            add(parts, "phones", stage.states, frame_loss(phones, encoded, targets))


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
    with mixed_precision(encoded.device):
        logits = head(encoded[known].to(head.weight.dtype))
    return cross_entropy(logits.float(), targets[known], label_smoothing=SMOOTHING)
