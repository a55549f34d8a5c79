"""Muon against torch's, which computes in bf16, and shared between processes."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import nn

from cortado.tests.training.tiny import fresh, recipe
from cortado.training.learning import muon
from cortado.training.learning.muon import ADAM_LENGTH, Muon, nearest_orthogonal
from cortado.training.learning.optimizers import optimizers

SHAPES = (96, 40), (30, 50), (64, 64)


def stepped(kind: Callable[..., torch.optim.Optimizer]) -> list[nn.Parameter]:
    """Return matrices after five steps along gradients that are drawn alike."""
    torch.manual_seed(0)
    matrices = [nn.Parameter(torch.randn(shape)) for shape in SHAPES]
    optimizer = kind(matrices, lr=1e-2, weight_decay=0.1)
    for _ in range(5):
        for matrix in matrices:
            matrix.grad = torch.randn_like(matrix)
        optimizer.step()
    return matrices


def test_its_steps_are_those_of_torch() -> None:
    theirs = stepped(partial(torch.optim.Muon, adjust_lr_fn="match_rms_adamw"))
    for one, other in zip(stepped(Muon), theirs, strict=True):
        moved = 5 * 1e-2 * ADAM_LENGTH * one.numel() ** 0.5
        assert (one - other).norm() < 0.02 * moved  # bf16 has three digits


def test_singular_values_come_near_one() -> None:
    torch.manual_seed(0)
    for shape in SHAPES:
        values = torch.linalg.svdvals(nearest_orthogonal(torch.randn(shape)))
        assert values.min() > 0.3
        assert values.max() < 1.3


def test_processes_share_the_work_evenly() -> None:
    matrices = [torch.zeros(8, 8 * k) for k in (9, 5, 4, 3, 2, 1)]
    owners = muon._owners(matrices, 2)
    loads = [0, 0]
    for matrix, owner in zip(matrices, owners, strict=True):
        loads[owner] += matrix.numel()
    assert loads[0] == loads[1]


def test_only_its_matrices_decay(manifest: Path) -> None:
    wanted = replace(recipe(manifest), optimizer="muon", weight_decay=0.1)
    found = optimizers(nn.ModuleList([fresh()]), wanted)
    decays = {name: one.param_groups[0]["weight_decay"] for name, one in found.items()}
    assert decays == {"optimizer": 0.0, "muon": 0.1}
