"""The running mean of the features (features/running_mean.py) as a Triton kernel, on a GPU.

One program is an utterance: a loop over its frames, with the mean in registers.
"""

import torch
import triton
import triton.language as tl
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


@triton.jit
def _sum(one, other):  # type: ignore[no-untyped-def]
    return one + other


@triton.jit
def _means(  # type: ignore[no-untyped-def]
    x_at,
    mean_at,
    memory_at,
    prior_at,
    deviation_at,
    means_at,
    last_memory_at,
    frames,
    bands,
    PRIOR: tl.constexpr,
    MEMORY: tl.constexpr,
    DROP: tl.constexpr,
    QUIET: tl.constexpr,
    STEADY: tl.constexpr,
    RISING: tl.constexpr,
    REST: tl.constexpr,
    RESTING: tl.constexpr,
    BOUND: tl.constexpr,
    DRAWN: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row, band = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    inside = band < bands
    prior = tl.load(prior_at + band, mask=inside, other=0.0)
    deviation = tl.load(deviation_at + band, mask=inside, other=1.0)
    mean = tl.load(mean_at + row * bands + band, mask=inside, other=0.0)
    count, pause = tl.load(memory_at + 3 * row), tl.load(memory_at + 3 * row + 1)
    noise = tl.load(memory_at + 3 * row + 2)
    t = 0
    while t < frames:
        at = (row * frames + t) * bands + band
        frame = tl.load(x_at + at, mask=inside, other=0.0)
        level = tl.reduce((frame - prior) / deviation, 0, _sum) / bands
        noise = tl.minimum(level, noise + RISING * (level - noise))
        above = tl.reduce((frame - mean) / deviation, 0, _sum) / bands
        pause = tl.where((above < QUIET) & (level < noise + STEADY), pause + 1, 0)
        over, rests = above < -DROP, pause > REST
        mean, count = tl.where(over, prior, mean), tl.where(over, PRIOR, count)
        count = tl.where(rests, count, tl.minimum(count + 1, MEMORY))
        mean += tl.where(rests, RESTING, 1.0) * (frame - mean) / count
        away = (mean - prior) / deviation
        level = tl.reduce(away, 0, _sum) / bands
        beyond = away - tl.minimum(tl.maximum(away, level - BOUND), level + BOUND)
        held = mean - tl.where(rests, 0.0, DRAWN) * beyond * deviation
        mean = tl.where(inside, held, 0.0)
        tl.store(means_at + at, mean, mask=inside)
        t += 1
    tl.store(last_memory_at + 3 * row, count)
    tl.store(last_memory_at + 3 * row + 1, pause)
    tl.store(last_memory_at + 3 * row + 2, noise)


def running_means(
    x: Tensor, mean: Tensor, memory: Tensor, prior: Tensor, deviation: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what `features.running_mean` defines, without a gradient; at least one frame."""
    x, mean, memory = x.contiguous(), mean.contiguous(), memory.contiguous()
    means, last = torch.empty_like(x), torch.empty_like(memory)
    _means[(len(x),)](
        x,
        mean,
        memory,
        prior.contiguous(),
        deviation.contiguous(),
        means,
        last,
        x.shape[1],
        x.shape[2],
        PRIOR=float(PRIOR_FRAMES),
        MEMORY=float(MEMORY_FRAMES),
        DROP=float(DROP),
        QUIET=float(QUIET),
        STEADY=float(STEADY),
        RISING=float(RISING),
        REST=float(REST_FRAMES),
        RESTING=float(RESTING),
        BOUND=float(BOUND),
        DRAWN=float(DRAWN),
        BLOCK=triton.next_power_of_2(x.shape[2]),
        num_warps=1,
    )
    return means, means[:, -1].clone(), last
