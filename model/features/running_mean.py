"""The running mean that normalises features: causal, and quick to recover after noise.

Every frame weighs 1 / count, where count grows by one a frame from PRIOR_FRAMES, the weight of the
training set's mean, to MEMORY_FRAMES. What is no speech moves the mean, too, and would distort the
speech behind it for seconds:

- Loud noise. Where a frame lies DROP deviations below the mean, over all bands together, what was
  so loud is over: mean and count are what they were at first. Speech as loud as may be falls less
  far in its pauses, to digital zero.
- Music, a hum. The level of the mean is free, its shape is held near the training set's: where a
  band lies more than BOUND deviations from all bands together, the share DRAWN of what is beyond is
  taken back each frame.
"""

import torch
from torch import Tensor

from cortado.model.features.framing import BOUND, DRAWN, DROP, MEMORY_FRAMES, PRIOR_FRAMES
from cortado.model.operation import operation


@operation(
    "running_means(Tensor x, Tensor mean, Tensor count, Tensor prior, Tensor deviation)"
    " -> (Tensor, Tensor, Tensor)"
)
def running_means(
    x: Tensor, mean: Tensor, count: Tensor, prior: Tensor, deviation: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the (B, T, F) running means of x up to and with each frame, the last mean and count.

    Args:
        x: (B, T, F) log-mel frames.
        mean: (B, F) as it was before them.
        count: (B, 1) frames in it.
        prior: (F,) the training set's mean.
        deviation: (F,) the training set's.
    """
    means = []
    for frame in x.unbind(1):
        over = ((frame - mean) / deviation).mean(1, keepdim=True) < -DROP
        mean = torch.where(over, prior, mean)
        count = (count.masked_fill(over, PRIOR_FRAMES) + 1).clamp(max=MEMORY_FRAMES)
        mean = _held(mean + (frame - mean) / count, prior, deviation)
        means.append(mean)
    return torch.stack(means, 1) if means else x, mean, count


def _held(mean: Tensor, prior: Tensor, deviation: Tensor) -> Tensor:
    """Return means (B, F) whose bands are drawn to one another."""
    away = (mean - prior) / deviation
    level = away.mean(1, keepdim=True)
    beyond = away - torch.minimum(torch.maximum(away, level - BOUND), level + BOUND)
    return mean - DRAWN * beyond * deviation
