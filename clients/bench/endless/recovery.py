"""Word errors over a day: do they grow, and are there more right after a stretch without speech?

A round is all recordings, each once, so rounds can be held against each other. One round scatters;
so do the few recordings that follow stretches of a kind, and they are not all equally hard: they
are held against the same recordings behind other speech.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

SHARE = 10  # of the rounds are the first, and the last: a tenth
FAR = 2  # standard errors from which on a difference is one


class Heard(NamedTuple):
    """A recording, one of the times that it was heard."""

    recording: int
    behind: str  # the kind of the stretch that it followed, empty where it followed speech
    errors: int  # in words
    words: int


@dataclass(frozen=True)
class Tenth:
    """The word errors of the first or the last tenth of the rounds."""

    rounds: int
    wer: float
    error: float | None  # standard, from the scatter of all rounds; None where there is but one


@dataclass(frozen=True)
class Recovery:
    """The word errors right behind the stretches of a kind."""

    recordings: int
    wer: float  # of these
    elsewhere: float  # of the same ones behind speech
    error: float | None  # standard, of the difference; None where there is but one recording

    @property
    def differs(self) -> bool | None:
        """Whether both rates differ by more than twice their standard error."""
        return _far(self.wer - self.elsewhere, self.error)


def tenths(heard: Sequence[Heard], each: int) -> tuple[Tenth, Tenth]:
    """Return the first and the last tenth of the whole rounds, at least one round each.

    Args:
        heard: in order, at least one.
        each: recordings in a round.
    """
    starts = range(0, len(heard) - each + 1, each)
    rounds = [heard[start : start + each] for start in starts] or [heard]
    count = max(1, len(rounds) // SHARE)
    error = None
    if len(rounds) > 1:
        scatter = np.std([_rate(one) for one in rounds], ddof=1)
        error = float(scatter / np.sqrt(count))
    first, last = ([x for one in some for x in one] for some in (rounds[:count], rounds[-count:]))
    return Tenth(count, _rate(first), error), Tenth(count, _rate(last), error)


def differ(first: Tenth, last: Tenth) -> bool | None:
    """Return whether two tenths differ by more than twice the standard error of the difference.

    None where there is no standard error.
    """
    if first.error is None or last.error is None:
        return None
    return _far(last.wer - first.wer, float(np.hypot(first.error, last.error)))


def recoveries(heard: Sequence[Heard]) -> dict[str, Recovery]:
    """Return the errors behind the stretches of each kind, in the order in which kinds came.

    A recording that was never heard behind speech is left out, and so is a kind that has no other.
    """
    usual: dict[int, list[int]] = defaultdict(list)  # errors behind speech, by recording
    for one in heard:
        if not one.behind:
            usual[one.recording].append(one.errors)
    behind: dict[str, list[Heard]] = {}
    for one in heard:
        if one.behind and one.recording in usual:
            behind.setdefault(one.behind, []).append(one)
    return {
        kind: _recovery(some, [float(np.mean(usual[one.recording])) for one in some])
        for kind, some in behind.items()
    }


def _recovery(some: Sequence[Heard], usual: Sequence[float]) -> Recovery:
    """Return the errors in some recordings, beside those that each usually has."""
    words = max(sum(one.words for one in some), 1)
    more = [one.errors - mean for one, mean in zip(some, usual, strict=True)]
    error = None
    if len(some) > 1:
        error = float(np.std(more, ddof=1) * np.sqrt(len(more)) / words)
    return Recovery(len(some), _rate(some), sum(usual) / words, error)


def _far(difference: float, error: float | None) -> bool | None:
    return None if error is None else abs(difference) > FAR * error


def _rate(heard: Sequence[Heard]) -> float:
    return sum(one.errors for one in heard) / max(sum(one.words for one in heard), 1)
