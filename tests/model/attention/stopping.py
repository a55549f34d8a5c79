"""Probabilities of stopping of all kinds, those included at which closed forms break."""

import torch
from torch import Tensor

KINDS = ["near 0", "near 1", "mixed", "exactly 0 and 1", "never", "always"]
KINDS += ["r = -4", "r = -1", "r = 0", "r = 4"]


def probabilities(kind: str, rows: int, frames: int) -> Tensor:
    """(rows, T) probabilities of stopping in float32."""
    noise = torch.randn(rows, frames)
    if kind.startswith("r ="):
        return (float(kind[3:]) + 0.5 * noise).sigmoid()
    return {
        "near 0": 1e-6 * torch.rand(rows, frames),
        "near 1": 1 - 1e-6 * torch.rand(rows, frames),
        "mixed": (20 * noise).sigmoid(),
        "exactly 0 and 1": (noise > 1).float(),
        "never": torch.zeros(rows, frames),
        "always": torch.ones(rows, frames),
    }[kind]
