"""The running mean that normalises features: causal, and quick to recover after noise.

Every frame weighs 1 / count, where count grows by one a frame from PRIOR_FRAMES, the weight of the
training set's mean, to MEMORY_FRAMES. What is no speech moves the mean, too, and would distort the
speech behind it for seconds:

- Loud noise. Where a frame lies DROP deviations below the mean, over all bands together, what was
  so loud is over: mean and count are what they were at first. Speech as loud as may be falls less
  far in its pauses, to digital zero.
- Pauses. A frame is of a pause where its level is QUIET below the mean and steady: less than
  STEADY above the noise, which is the lowest level of late (it falls at once and rises at the share
  RISING of a louder frame). After REST_FRAMES in a row the mean rests where the speech before has
  left it, at the share RESTING of its pace. A soft voice is not steady, so it is no pause.
- Music, a hum. The level of the mean is free, its shape is held near the training set's: where a
  band lies more than BOUND deviations from all bands together, the share DRAWN of what is beyond is
  taken back each frame.
"""

import torch
from torch import Tensor

from cortado.model.features.framing import (
    BOUND,
    DRAWN,
    DROP,
    MEMORY_FRAMES,
    PRIOR_FRAMES,
    QUIET,
    REST_FRAMES,
    RESTING,
    RISING,
    STEADY,
)
from cortado.model.operation import operation


@operation(
    "running_means(Tensor x, Tensor mean, Tensor memory, Tensor prior, Tensor deviation)"
    " -> (Tensor, Tensor, Tensor)"
)
def running_means(
    x: Tensor, mean: Tensor, memory: Tensor, prior: Tensor, deviation: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the (B, T, F) running means of x up to and with each frame, the last mean and memory.

    Args:
        x: (B, T, F) log-mel frames.
        mean: (B, F) as it was before them.
        memory: (B, 3) frames in it, frames of a pause in a row, and the level of the noise, in
            deviations above the prior.
        prior: (F,) the training set's mean.
        deviation: (F,) the training set's.
    """
    means, (count, pause, noise) = [], memory.split(1, 1)
    for frame in x.unbind(1):
        level = ((frame - prior) / deviation).mean(1, keepdim=True)
        noise = torch.minimum(level, noise + RISING * (level - noise))
        above = level - ((mean - prior) / deviation).mean(1, keepdim=True)
        steady = (above < QUIET) & (level < noise + STEADY)
        pause = torch.where(steady, pause + 1, 0)
        over, rests = above < -DROP, pause > REST_FRAMES
        mean, count = torch.where(over, prior, mean), count.masked_fill(over, PRIOR_FRAMES)
        count = torch.where(rests, count, (count + 1).clamp(max=MEMORY_FRAMES))
        resting = mean + RESTING * (frame - mean) / count
        moving = _held(mean + (frame - mean) / count, prior, deviation)
        mean = torch.where(rests, resting, moving)
        means.append(mean)
    return torch.stack(means, 1) if means else x, mean, torch.cat([count, pause, noise], 1)


def _held(mean: Tensor, prior: Tensor, deviation: Tensor) -> Tensor:
    """Return means (B, F) whose bands are drawn to one another."""
    away = (mean - prior) / deviation
    level = away.mean(1, keepdim=True)
    beyond = away - torch.minimum(torch.maximum(away, level - BOUND), level + BOUND)
    return mean - DRAWN * beyond * deviation
