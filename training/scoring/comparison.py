"""An evaluation compared with another's JSON, set by set."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cortado.training.data.evaluation_sets import NamedSet
from cortado.training.scoring.edits import errors
from cortado.training.scoring.error_rates import Interval, bootstrap_interval, rate
from cortado.training.scoring.evaluate import Result, Rules, SetScore
from cortado.training.scoring.phrase_score import PhraseScore, phrase_score

WANTED = "`cortado evaluate --json` of this version"


@dataclass(frozen=True)
class Compared:
    """A set of this run against the same set of another; below 0 this one is better."""

    name: str
    other: str  # system of the other run
    utterances: int  # that both have recognised
    rate: float
    other_rate: float
    difference: float  # rate - other_rate
    ci95: Interval  # of the difference, paired bootstrap over speakers
    other_phrases: PhraseScore | None = None  # of the other run, where this one scores phrases

    @property
    def significant(self) -> bool | None:
        """Whether the interval leaves out that there is no difference; None without an interval."""
        return None if self.ci95 is None else not self.ci95[0] <= 0 <= self.ci95[1]


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


def check_comparable(
    sets: Sequence[NamedSet], rules: Rules, others: dict[str, dict[str, Any]]
) -> None:
    """Check that `compared` will be able to compare sets, before anything is recognised.

    Raises: ValueError where no set is in both runs, or one was compared by other rules or has no
    utterance with the same reference.
    """
    pairs = [(one, others[one.name]) for one in sets if one.name in others]
    if not pairs:
        expected = " or ".join(one.name for one in sets)
        raise ValueError(
            f"expected a set named {expected} in the other run, got {', '.join(others)}"
        )
    for one, other in pairs:
        for name in ("unit", "normalisation"):
            wanted, got = getattr(rules, name), other[name]
            if got != wanted:
                raise ValueError(f"{one.name}: expected {name} {wanted!r} in both, got {got!r}")
        theirs = {(row["id"], row["reference"]) for row in other["results"]}
        if not any((each.id, rules.reference(each)) in theirs for each in one.utterances):
            raise ValueError(f"{one.name}: expected utterances that are in both, got none")


def compared(sets: Sequence[SetScore], others: dict[str, dict[str, Any]]) -> list[Compared]:
    """Return the comparison of each set that is in both runs; see `check_comparable`."""
    both = [_compared(one, others[one.name]) for one in sets if one.name in others]
    return [one for one in both if one is not None]


def _compared(one: SetScore, other: dict[str, Any]) -> Compared | None:
    """Return the comparison of a set; None where no recording that both have could be read."""
    theirs = {row["id"]: row for row in other["results"]}
    both = [result for result in one.results if _matches(result, theirs)]
    if not both:
        return None
    ours = np.array([result.errors.total for result in both])
    heard = [(r.reference, theirs[r.utterance.id]["hypothesis"]) for r in both]
    others = np.array([errors(*texts, one.rules.unit).total for texts in heard])
    lengths = np.array([result.errors.length for result in both])
    speakers = [result.utterance.speaker for result in both]
    own_rate, other_rate = (rate(int(e.sum()), int(lengths.sum())) for e in (ours, others))
    return Compared(
        name=one.name,
        other=other["system"],
        utterances=len(both),
        rate=own_rate,
        other_rate=other_rate,
        difference=own_rate - other_rate,
        ci95=bootstrap_interval(ours - others, lengths, speakers),
        other_phrases=phrase_score(heard, one.rules.phrases) if one.rules.phrases else None,
    )


def _matches(result: Result, theirs: dict[str, Any]) -> bool:
    row = theirs.get(result.utterance.id)
    return row is not None and row["reference"] == result.reference
