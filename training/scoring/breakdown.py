"""Errors by speaker, length or field of the manifest, and the most frequent confusions."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from cortado.training.data.manifest import Utterance
from cortado.training.scoring.edits import Errors, edits
from cortado.training.scoring.error_rates import Interval, interval, rate
from cortado.training.scoring.evaluate import Result

LENGTHS = (1, 2, 3, 5, 8, 12, 20, 30)  # seconds, bounds of the groups by length
MANY = 12  # different numbers in a field from which on they are grouped by quartiles
MISSING = "(none)"


@dataclass(frozen=True)
class Group:
    """The errors of the utterances that have something in common."""

    name: str
    utterances: int
    errors: Errors
    ci95: Interval

    @property
    def rate(self) -> float:
        """Errors per token of the reference."""
        return rate(self.errors.total, self.errors.length)


def total(results: Iterable[Result]) -> Errors:
    """Return the edits of all results together."""
    return Errors(*np.sum([one.errors for one in results], axis=0).tolist())


def by_speaker(results: Sequence[Result]) -> list[Group]:
    """Return a group for each speaker, the worst first."""
    groups = _grouped(results, [one.utterance.speaker for one in results])
    return sorted(groups, key=lambda group: -group.rate)


def by_length(results: Sequence[Result]) -> list[Group]:
    """Return a group for each range of durations, the shortest first."""
    names = [f"under {LENGTHS[0]} s"]
    names += [f"{low} to {high} s" for low, high in pairwise(LENGTHS)]
    names += [f"{LENGTHS[-1]} s and more"]
    durations = [one.utterance.duration for one in results]
    places = np.searchsorted(LENGTHS, durations, side="right")
    groups = _grouped(results, [names[k] for k in places])
    return sorted(groups, key=lambda group: names.index(group.name))


def check_fields(utterances: Sequence[Utterance], fields: Sequence[str]) -> None:
    """Look, before they are heard, whether utterances can be grouped by fields of their manifest.

    Raises: ValueError where none of them has a field.
    """
    known = {name for one in utterances for name in one.fields}
    for field in fields:
        if field not in known:
            got = f"{field!r} and {', '.join(sorted(known)) or 'no further fields'}"
            raise ValueError(
                f"expected a field of the manifest to group by, got {got}; "
                "groups by speaker and by length are always there"
            )


def by_field(results: Sequence[Result], field: str) -> list[Group]:
    """Return a group for each value of a manifest's field; many numbers are cut in quartiles."""
    values = [one.utterance.fields.get(field) for one in results]
    present = [value for value in values if value is not None]
    numbers = [v for v in present if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) == len(present) and len(set(numbers)) > MANY:
        return _by_quartile(results, values, numbers)
    groups = _grouped(results, [MISSING if value is None else str(value) for value in values])
    return sorted(groups, key=lambda group: group.name)


def _by_quartile(
    results: Sequence[Result], values: Sequence[Any], numbers: Sequence[float]
) -> list[Group]:
    cuts = np.percentile(numbers, [0, 25, 50, 75, 100])
    names = [f"{low:g} to {high:g}" for low, high in pairwise(cuts)] + [MISSING]
    of_each = [
        MISSING if value is None else names[np.searchsorted(cuts[1:-1], value, side="left")]
        for value in values
    ]
    groups = _grouped(results, of_each)
    return sorted(groups, key=lambda group: names.index(group.name))


def _grouped(results: Sequence[Result], names: Iterable[str]) -> list[Group]:
    """Return the groups of results that have the same name."""
    parts: defaultdict[str, list[Result]] = defaultdict(list)
    for one, name in zip(results, names, strict=True):
        parts[name].append(one)
    return [_group(name, part) for name, part in parts.items()]


def _group(name: str, part: Sequence[Result]) -> Group:
    speakers = [one.utterance.speaker for one in part]
    return Group(name, len(part), total(part), interval([one.errors for one in part], speakers))


@dataclass(frozen=True)
class Confusions:
    """Substitutions, deletions and insertions with their counts, the most frequent first."""

    substituted: list[tuple[str, str, int]]  # reference, hypothesis
    deleted: list[tuple[str, int]]
    inserted: list[tuple[str, int]]


def confusions(results: Iterable[Result], most: int = 50) -> Confusions:
    """Return the most frequent edits; equally frequent ones by their tokens, so that runs agree."""
    counts = Counter(edit for one in results for edit in one.edits if edit.kind != "ok")
    substituted, deleted, inserted = [], [], []
    for edit, count in sorted(counts.items(), key=lambda item: (-item[1], str(item[0]))):
        if edit.reference is None:
            inserted.append((str(edit.hypothesis), count))
        elif edit.hypothesis is None:
            deleted.append((edit.reference, count))
        else:
            substituted.append((edit.reference, edit.hypothesis, count))
    return Confusions(substituted[:most], deleted[:most], inserted[:most])


def symbol_matrix(results: Iterable[Result]) -> tuple[list[str], list[list[int]]]:
    """Return the symbols, and how often each (row) was recognised as each (column).

    Symbols are phones where phones are scored, else characters. The last row counts insertions,
    the last column deletions.
    """
    counts: Counter[tuple[Hashable, Hashable]] = Counter()
    for one in results:
        aligned = one.edits if one.unit != "word" else edits(one.reference, one.hypothesis, "char")
        counts.update((edit.reference, edit.hypothesis) for edit in aligned)
    seen = {str(symbol) for pair in counts for symbol in pair if symbol is not None}
    symbols: list[str | None] = [*sorted(seen), None]
    matrix = [[counts[row, column] for column in symbols] for row in symbols]
    return [symbol or "" for symbol in symbols], matrix


def worst(results: Sequence[Result], most: int) -> list[Result]:
    """Return the results with the most errors, of as many those with the higher rate first."""

    def order(one: Result) -> tuple[float, float, str]:
        return (-one.errors.total, -rate(one.errors.total, one.errors.length), one.utterance.id)

    return sorted((one for one in results if one.errors.total), key=order)[:most]
