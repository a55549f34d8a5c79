"""Word errors over a day: do they grow, and are there more right after a stretch without speech?

A round is all recordings, each once, so rounds can be compared. The recordings that follow one
kind of stretch are few and differ in difficulty, so they are compared with the same recordings
after other speech.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

TENTH = 10
SIGNIFICANT = 2  # standard errors


class Scored(NamedTuple):
    """The errors in one playback of a recording."""

    recording: int
    after: str  # kind of the stretch before it; empty after speech
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
    """The word errors right after the stretches of one kind."""

    recordings: int
    wer: float  # of these
    after_speech: float  # of the same recordings after speech
    error: float | None  # standard, of the difference; None where there is but one recording

    @property
    def differs(self) -> bool | None:
        """Whether both rates differ by more than twice their standard error."""
        return _significant(self.wer - self.after_speech, self.error)


def tenths(scores: Sequence[Scored], each: int) -> tuple[Tenth, Tenth]:
    """Return the first and the last tenth of the whole rounds, at least one round each.

    Args:
        scores: in order, at least one.
        each: recordings in a round.
    """
    starts = range(0, len(scores) - each + 1, each)
    rounds = [scores[start : start + each] for start in starts] or [scores]
    count = max(1, len(rounds) // TENTH)
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
    return _significant(last.wer - first.wer, float(np.hypot(first.error, last.error)))


def recoveries(scores: Sequence[Scored]) -> dict[str, Recovery]:
    """Return the errors after the stretches of each kind, in the order in which kinds came.

    A recording that was never scored after speech is left out, and so is a kind that has no other.
    """
    after_speech: dict[int, list[int]] = defaultdict(list)  # errors after speech, by recording
    for one in scores:
        if not one.after:
            after_speech[one.recording].append(one.errors)
    after: dict[str, list[Scored]] = {}
    for one in scores:
        if one.after and one.recording in after_speech:
            after.setdefault(one.after, []).append(one)
    return {
        kind: _recovery(some, [float(np.mean(after_speech[one.recording])) for one in some])
        for kind, some in after.items()
    }


def _recovery(some: Sequence[Scored], after_speech: Sequence[float]) -> Recovery:
    """Return the errors in some recordings, compared with their mean errors after speech."""
    words = max(sum(one.words for one in some), 1)
    extra = [one.errors - mean for one, mean in zip(some, after_speech, strict=True)]
    error = None
    if len(some) > 1:
        error = float(np.std(extra, ddof=1) * np.sqrt(len(extra)) / words)
    return Recovery(len(some), _rate(some), sum(after_speech) / words, error)


def _significant(difference: float, error: float | None) -> bool | None:
    return None if error is None else abs(difference) > SIGNIFICANT * error


def _rate(scores: Sequence[Scored]) -> float:
    return sum(one.errors for one in scores) / max(sum(one.words for one in scores), 1)
