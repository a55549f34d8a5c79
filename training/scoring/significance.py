"""Whether one system is better than another on the same utterances."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cortado.training.scoring.edits import Edit
from cortado.training.scoring.error_rates import bootstrap_interval

BUFFER = 2  # words that both systems have right, which part one segment from the next


@dataclass(frozen=True)
class Comparison:
    """A system against another; a difference below 0 says that it is better than the other."""

    utterances: int  # that both have heard
    rate: float
    other_rate: float
    difference: float  # rate - other_rate
    ci95: tuple[float, float]  # of the difference, paired bootstrap over speakers
    segments: int  # in which at least one of them errs
    p: float  # two-sided; matched pairs sentence segment word error test


def positions(aligned: Sequence[Edit]) -> list[int]:
    """Return the errors (N + 1,) at each of N tokens said; insertions count at the token after."""
    errors, waiting = [], 0
    for edit in aligned:
        if edit.said is None:
            waiting += 1
            continue
        errors.append(waiting + (edit.kind != "ok"))
        waiting = 0
    return [*errors, waiting]


def segments(first: Sequence[int], second: Sequence[int]) -> list[tuple[int, int]]:
    """Return the errors of both systems in each segment of one utterance.

    A segment is bounded by at least two tokens that both have right, or by the utterance's ends
    (Gillick & Cox 1989; the matched pairs test of NIST's sctk), so that what happens in one
    segment does not depend on another.
    """
    found: list[tuple[int, int]] = []
    open_, right = False, 0
    for one, other in zip(first, second, strict=True):
        if one == other == 0:
            right += 1
            open_ = open_ and right < BUFFER
            continue
        if not open_:
            found.append((0, 0))
        found[-1] = (found[-1][0] + one, found[-1][1] + other)
        open_, right = True, 0
    return found


def matched_pairs(pairs: Sequence[tuple[int, int]]) -> float:
    """Return the two-sided p of the mean difference of (errors, errors) pairs being 0."""
    differences = np.array([one - other for one, other in pairs], float)
    if len(differences) < 2 or not differences.any():
        return 1.0
    deviation = differences.std(ddof=1)
    if deviation == 0:
        return 0.0
    z = abs(differences.mean()) / (deviation / math.sqrt(len(differences)))
    return math.erfc(z / math.sqrt(2))


def compare(
    first: Sequence[Sequence[Edit]],
    second: Sequence[Sequence[Edit]],
    speakers: Sequence[str],
    seed: int = 0,
) -> Comparison:
    """Return how the first system's errors differ from the second's, on the same N utterances.

    Raises: ValueError without utterances, or where the two have not heard the same references.
    """
    if not first or not len(first) == len(second) == len(speakers):
        raise ValueError(
            f"expected the same utterances of both systems, at least one, "
            f"got {len(first)} and {len(second)} of {len(speakers)} speakers"
        )
    pairs = [(positions(one), positions(other)) for one, other in zip(first, second, strict=True)]
    if any(len(one) != len(other) for one, other in pairs):
        raise ValueError("expected the same references in both systems, got others")
    lengths = np.array([len(one) - 1 for one, _ in pairs])
    errors = np.array([[sum(one), sum(other)] for one, other in pairs])
    parts = [part for one, other in pairs for part in segments(one, other)]
    total = max(int(lengths.sum()), 1)
    rate, other_rate = (float(count) / total for count in errors.sum(0))
    return Comparison(
        utterances=len(pairs),
        rate=rate,
        other_rate=other_rate,
        difference=rate - other_rate,
        ci95=bootstrap_interval(errors[:, 0] - errors[:, 1], lengths, speakers, seed),
        segments=len(parts),
        p=matched_pairs(parts),
    )
