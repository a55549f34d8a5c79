"""The schedule of a stage's learning rate."""

import math

from cortado.training.learning.stage import Stage


def learning_rate(stage: Stage, step: int) -> float:
    """Return the rate of a stage's step: a linear warm-up, then cuts or a cosine."""
    if step < stage.warmup:
        return stage.learning_rate * (step + 1) / stage.warmup
    if stage.cuts:
        return stage.learning_rate * stage.cut ** sum(step >= at for at in stage.cuts)
    part = (step - stage.warmup) / max(1, stage.steps - stage.warmup)
    final = stage.final_learning_rate
    return cosine(stage.learning_rate, stage.learning_rate if final is None else final, part)


def cosine(first: float, last: float, part: float) -> float:
    """Return a rate that falls from the first to the last along a cosine, after a part of it."""
    return last + (first - last) * (1 + math.cos(math.pi * part)) / 2
