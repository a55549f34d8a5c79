"""The running mean of the features (features/running_mean.py) as a Triton kernel, on a GPU.

One program is an utterance: a loop over its frames, with the mean in registers.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from cortado.model.features.framing import BOUND, DRAWN, DROP, MEMORY_FRAMES, PRIOR_FRAMES


@triton.jit
def _sum(one, other):  # type: ignore[no-untyped-def]
    return one + other


@triton.jit
def _means(  # type: ignore[no-untyped-def]
    x_at,
    mean_at,
    count_at,
    prior_at,
    deviation_at,
    means_at,
    last_count_at,
    frames,
    bands,
    PRIOR: tl.constexpr,
    MEMORY: tl.constexpr,
    DROP: tl.constexpr,
    BOUND: tl.constexpr,
    DRAWN: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row, band = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    inside = band < bands
    prior = tl.load(prior_at + band, mask=inside, other=0.0)
    deviation = tl.load(deviation_at + band, mask=inside, other=1.0)
    mean = tl.load(mean_at + row * bands + band, mask=inside, other=0.0)
    count = tl.load(count_at + row)
    t = 0
    while t < frames:
        at = (row * frames + t) * bands + band
        frame = tl.load(x_at + at, mask=inside, other=0.0)
        over = tl.reduce((frame - mean) / deviation, 0, _sum) < -DROP * bands
        mean = tl.where(over, prior, mean)
        count = tl.minimum(tl.where(over, PRIOR, count) + 1, MEMORY)
        mean += (frame - mean) / count
        away = (mean - prior) / deviation
        level = tl.reduce(away, 0, _sum) / bands
        beyond = away - tl.minimum(tl.maximum(away, level - BOUND), level + BOUND)
        mean = tl.where(inside, mean - DRAWN * beyond * deviation, 0.0)
        tl.store(means_at + at, mean, mask=inside)
        t += 1
    tl.store(last_count_at + row, count)


def running_means(
    x: Tensor, mean: Tensor, count: Tensor, prior: Tensor, deviation: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what `features.running_mean` defines, without a gradient; at least one frame."""
    x, mean, count = x.contiguous(), mean.contiguous(), count.contiguous()
    means, last = torch.empty_like(x), torch.empty_like(count)
    _means[(len(x),)](
        x,
        mean,
        count,
        prior.contiguous(),
        deviation.contiguous(),
        means,
        last,
        x.shape[1],
        x.shape[2],
        PRIOR=float(PRIOR_FRAMES),
        MEMORY=float(MEMORY_FRAMES),
        DROP=float(DROP),
        BOUND=float(BOUND),
        DRAWN=float(DRAWN),
        BLOCK=triton.next_power_of_2(x.shape[2]),
        num_warps=1,
    )
    return means, means[:, -1].clone(), last
