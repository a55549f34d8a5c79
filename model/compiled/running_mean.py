"""One frame of the features' running mean, compiled: for whole recordings and for live streams.

features/running_mean.py defines it.
"""

import numpy as np

from cortado.model.arrays import Array
from cortado.model.compiled.functions import FAST
from cortado.model.compiled.jit import uncounted
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

_ZERO, _ONE = np.float32(0), np.float32(1)
_PRIOR, _MEMORY, _DROP = np.float32(PRIOR_FRAMES), np.float32(MEMORY_FRAMES), np.float32(DROP)
_QUIET, _STEADY, _RISING = np.float32(QUIET), np.float32(STEADY), np.float32(RISING)
_REST, _RESTING = np.float32(REST_FRAMES), np.float32(RESTING)
_BOUND, _DRAWN = np.float32(BOUND), np.float32(DRAWN)


@uncounted(fastmath=FAST, error_model="numpy", forceinline=True)
def follow(
    frame: Array,
    mean: Array,
    memory: Array,
    prior: Array,
    deviation: Array,
    inverse: Array,
    limited: Array,
) -> tuple[np.float32, np.bool_]:
    """Let a running mean follow a frame; return the frame's weight in it, and whether it restarted.

    Args:
        frame: (F,) log-mel.
        mean: (F,) the running mean; changed in place.
        memory: (3,) what it remembers beside itself; changed in place.
        prior: (F,) the mean of all frames that were trained on.
        deviation: (F,) their standard deviation.
        inverse: (F,) 1 / deviation.
        limited: (F,) bool, set to whether a band's mean is drawn to the others'.
    """
    bands, level, above = len(frame), _ZERO, _ZERO
    for m in range(bands):
        level += (frame[m] - prior[m]) * inverse[m]
        above += (frame[m] - mean[m]) * inverse[m]
    level, above = level / np.float32(bands), above / np.float32(bands)
    count, pause = memory[0], memory[1]
    noise = min(level, memory[2] + _RISING * (level - memory[2]))
    pause = pause + _ONE if above < _QUIET and level < noise + _STEADY else _ZERO
    restarts, rests = above < -_DROP, pause > _REST
    if restarts:
        for m in range(bands):
            mean[m] = prior[m]
        count = _PRIOR
    if not rests:
        count = min(count + _ONE, _MEMORY)
    memory[0], memory[1], memory[2] = count, pause, noise
    share, drawn = (_RESTING / count, _ZERO) if rests else (_ONE / count, _DRAWN)
    level = _ZERO
    for m in range(bands):
        mean[m] += (frame[m] - mean[m]) * share
        level += (mean[m] - prior[m]) * inverse[m]
    level /= np.float32(bands)
    for m in range(bands):
        offset = (mean[m] - prior[m]) * inverse[m] - level
        excess = offset - min(max(offset, -_BOUND), _BOUND)
        mean[m] -= drawn * excess * deviation[m]
        limited[m] = excess * drawn != _ZERO
    return share, restarts
