"""An evaluation compared with another's JSON, set by set."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cortado.training.scoring.edits import Edit, count, edits
from cortado.training.scoring.error_rates import bootstrap_interval
from cortado.training.scoring.evaluate import Result, SetScore

WANTED = "`cortado evaluate --json` of this version"


@dataclass(frozen=True)
class Comparison:
    """The error rates of two systems; a difference below 0 says that the first is better."""

    utterances: int  # that both have recognised
    rate: float
    other_rate: float
    difference: float  # rate - other_rate
    ci95: tuple[float, float]  # of the difference, paired bootstrap over speakers

    @property
    def significant(self) -> bool:
        """Whether the interval leaves out that there is no difference."""
        return not self.ci95[0] <= 0 <= self.ci95[1]


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


def compare(
    first: Sequence[Sequence[Edit]],
    second: Sequence[Sequence[Edit]],
    speakers: Sequence[str],
) -> Comparison:
    """Return how the first system's errors differ from the second's, on the same N utterances.

    Raises: ValueError without utterances, or where the two have not the same references.
    """
    if not first or not len(first) == len(second) == len(speakers):
        raise ValueError(
            f"expected the same utterances of both systems, at least one, "
            f"got {len(first)} and {len(second)} of {len(speakers)} speakers"
        )
    pairs = [(count(one), count(other)) for one, other in zip(first, second, strict=True)]
    if any(one.length != other.length for one, other in pairs):
        raise ValueError("expected the same references in both systems, got others")
    lengths = np.array([one.length for one, _ in pairs])
    errors = np.array([[one.total, other.total] for one, other in pairs])
    total = max(int(lengths.sum()), 1)
    rate, other_rate = (float(found) / total for found in errors.sum(0))
    return Comparison(
        utterances=len(pairs),
        rate=rate,
        other_rate=other_rate,
        difference=rate - other_rate,
        ci95=bootstrap_interval(errors[:, 0] - errors[:, 1], lengths, speakers),
    )
