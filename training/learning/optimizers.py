"""The optimisers of a run: Adam, or Muon for the encoder's matrices beside it."""

import torch
from torch import nn

from cortado.training.learning.muon import Muon
from cortado.training.learning.recipe import Recipe

ENCODER = ".encoder.layers."  # in the names of weights whose matrices Muon may take


def optimizers(trained: nn.Module, recipe: Recipe) -> dict[str, torch.optim.Optimizer]:
    """Return the optimisers of all weights that have gradients, by their names in snapshots."""
    weights = {name: one for name, one in trained.named_parameters() if one.requires_grad}
    matrices = {}
    if recipe.optimizer == "muon":
        matrices = {k: one for k, one in weights.items() if ENCODER in k and one.dim() == 2}
    rest = [one for name, one in weights.items() if name not in matrices]
    found: dict[str, torch.optim.Optimizer] = {
        "optimizer": torch.optim.Adam(rest, 1e-3, (0.9, 0.999), 1e-6, weight_decay=recipe.l2)
    }
    if matrices:
        found["muon"] = Muon(matrices.values(), 1e-3, recipe.weight_decay)
    return found
