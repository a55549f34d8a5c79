"""An evaluation compared with another's JSON, set by set, with a test of significance."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cortado.training.scoring.edits import Edit, edits
from cortado.training.scoring.error_rates import bootstrap_interval
from cortado.training.scoring.evaluate import Result, SetScore

WANTED = "`cortado evaluate --json` of this version"
BUFFER = 2  # words that both systems have right, which part one segment from the next


@dataclass(frozen=True)
class Comparison:
    """The error rates of two systems; a difference below 0 says that the first is better."""

    utterances: int  # that both have recognised
    rate: float
    other_rate: float
    difference: float  # rate - other_rate
    ci95: tuple[float, float]  # of the difference, paired bootstrap over speakers
    segments: int  # in which at least one of them errs
    p: float  # two-sided; matched pairs sentence segment word error test


@dataclass(frozen=True)
class Compared:
    """A set of this run against the same set of another."""

    name: str
    other: str  # system of the other run
    comparison: Comparison


def read_other(path: Path) -> dict[str, dict[str, Any]]:
    """Return the sets of another evaluation's JSON by their names.

    Raises: ValueError for a file that is none; OSError.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        sets = {one["name"]: one for one in content["sets"]}
        for one in sets.values():
            {row["id"]: (row["reference"], row["hypothesis"]) for row in one["results"]}
            one["unit"], one["normalisation"], one["system"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"expected what {WANTED} writes in {path}, got something else") from error
    return sets


def compared(sets: Sequence[SetScore], others: dict[str, dict[str, Any]]) -> list[Compared]:
    """Return the comparison of each set that is in both runs.

    Raises: ValueError where no set is, or one was compared by other rules or has no utterance with
    the same reference.
    """
    pairs = [(one, others[one.name]) for one in sets if one.name in others]
    if not pairs:
        expected = ", ".join(one.name for one in sets)
        raise ValueError(f"expected a set of {expected} to compare with, got {', '.join(others)}")
    return [_compared(one, other) for one, other in pairs]


def _compared(one: SetScore, other: dict[str, Any]) -> Compared:
    for name, ours in (("unit", one.rules.unit), ("normalisation", one.rules.normalisation)):
        if other[name] != ours:
            raise ValueError(f"{one.name}: expected {name} {ours!r} in both, got {other[name]!r}")
    theirs = {row["id"]: row for row in other["results"]}
    both = [result for result in one.results if _matches(result, theirs)]
    if not both:
        raise ValueError(f"{one.name}: expected utterances that are in both, got none")
    unit = one.rules.unit
    others = [edits(r.reference, theirs[r.utterance.id]["hypothesis"], unit) for r in both]
    speakers = [result.utterance.speaker for result in both]
    found = compare([result.edits for result in both], others, speakers)
    return Compared(one.name, other["system"], found)


def _matches(result: Result, theirs: dict[str, Any]) -> bool:
    row = theirs.get(result.utterance.id)
    return row is not None and row["reference"] == result.reference


def positions(aligned: Sequence[Edit]) -> list[int]:
    """Return the errors (N + 1,) at each of N reference tokens; insertions at the next one."""
    errors, waiting = [], 0
    for edit in aligned:
        if edit.reference is None:
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

    Raises: ValueError without utterances, or where the two have not the same references.
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
