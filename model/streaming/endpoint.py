"""Where utterances end: rules on the attention's silence, the CTC head's blanks and the length,
and, where one hears the stream too, on a voice activity detector's quiet.

What is decided rests on a stream's emissions and encoder frames alone, in whole steps, each stream
by itself: like them it is a function of the audio, the same live and offline.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from cortado.model.emission import Emissions
from cortado.model.features.framing import STEP_SECONDS
from cortado.model.streaming.interface import Rows

NEVER = 1 << 30  # steps
SILENCE, BLANK, LENGTH, QUIET, SPOKEN = range(5)  # what is counted of an utterance


@dataclass(frozen=True)
class Rule:
    """An utterance, which has at least one character, ends where all of this holds.

    In the manner of Kaldi's endpointing rules (kaldi-asr, src/online2/online-endpoint.h).
    """

    silence: float = 0.0  # seconds since its last character
    blank: float = 0.0  # seconds for which the CTC head has heard no character, since its first
    length: float = 0.0  # seconds since its first character
    quiet: float = 0.0  # seconds for which the detector has heard no speech, since the first too

    def __post_init__(self) -> None:
        """Check that the rule says something.

        Raises:
            ValueError: a time that is negative or no number, or all of them zero.
        """
        times = self.times
        if not all(math.isfinite(time) and time >= 0 for time in times) or not any(times):
            raise ValueError(f"expected seconds, at least one above 0, got {self}")

    @property
    def times(self) -> tuple[float, ...]:
        """The four in seconds."""
        return self.silence, self.blank, self.length, self.quiet

    @property
    def steps(self) -> tuple[int, ...]:
        """The four in steps, rounded up."""
        return tuple(math.ceil(round(time / STEP_SECONDS, 6)) for time in self.times)


RULES = (
    Rule(silence=0.8, blank=0.6),  # both have heard nothing
    Rule(silence=2.0),  # the attention has, though the head hears something in the noise
    Rule(blank=3.0),  # the attention writes where nobody speaks: a loop
    Rule(silence=0.2, length=20.0),  # a long one, at its next pause
    Rule(length=60.0),  # what is kept of an utterance is bounded
)

QUIET_RULES = (  # for streams that a voice activity detector hears too
    Rule(silence=0.4, quiet=0.6),  # both have heard nothing
    *RULES[2:],  # a loop, and the long ones
)


Rules = tuple[Rule, ...]


class Endpointer:
    """The utterances of S streams, one a row, followed step by step, each by rules of its own."""

    def __init__(self, streams: int) -> None:
        self._known: dict[Rules, int] = {}
        self._rules = np.zeros((0, 0, 4), np.int64)  # (sets of rules, rules, 4) steps
        self._which = np.zeros(streams, np.int64)  # set of each row
        # (S, 5) steps since the last character, of blanks in a row, since the first character, of
        # quiet in a row; and whether the utterance has a character
        self._counts = np.zeros((streams, 5), np.int64)
        self._use(())

    def _use(self, rules: Rules) -> int:
        """Return the number of a set of rules."""
        if rules not in self._known:
            self._known[rules] = len(self._known)
            most = max(map(len, self._known))
            padding = (NEVER,) * 4
            self._rules = np.array(
                [
                    [rule.steps for rule in known] + [padding] * (most - len(known))
                    for known in self._known
                ],
                np.int64,
            ).reshape(len(self._known), most, 4)
        return self._known[rules]

    def reset(self, rows: Rows, rules: Sequence[Rules]) -> None:
        """Let the streams in (R,) rows have heard nothing; each is parted by its own rules."""
        self._counts[rows] = 0
        self._which[rows] = [self._use(own) for own in rules]

    def rules(self, row: int) -> Rules:
        """Return the rules of a row."""
        return list(self._known)[self._which[row]]

    def parted(self, rows: Rows) -> NDArray[np.bool_]:
        """Return (R,) which streams have any rules."""
        return self._which[rows] != 0

    def listening(self, rows: Rows) -> NDArray[np.bool_]:
        """Return (R,) which streams have rules that ask for quiet."""
        asks = np.array([any(rule.quiet for rule in rules) for rules in self._known])
        found: NDArray[np.bool_] = asks[self._which[rows]]
        return found

    def step(
        self,
        rows: Rows,
        emissions: Emissions,
        blanks: NDArray[np.bool_],
        quiet: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.bool_]:
        """Return which of the streams in (R,) rows end an utterance with this step.

        Args:
            rows: which streams, each once.
            emissions: of the step.
            blanks: (R,) whether the CTC head heard no character.
            quiet: (R,) whether the detector heard no speech, for rules that ask for it.
        """
        ended = np.zeros(len(rows), np.bool_)
        quiet = ended if quiet is None else quiet
        _follow(rows, *emissions, blanks, quiet, self._rules, self._which, self._counts, ended)
        return ended

    def snapshot(self, row: int) -> list[int]:
        """Return what `restore` takes."""
        counts: list[int] = self._counts[row].tolist()
        return counts

    def restore(self, row: int, counts: list[int]) -> None:
        """Give a row what `snapshot` returned."""
        self._counts[row] = counts


@numba.njit(cache=True, nogil=True)
def _follow(
    rows: Any,
    symbols: Any,
    late: Any,
    blanks: Any,
    quiet: Any,
    rules: Any,
    which: Any,
    every: Any,
    ended: Any,
) -> None:
    """Count this step of (R,) rows in `every` (S, 5); set (R,) which utterances end with it."""
    for r in range(len(rows)):
        counts, own, since = every[rows[r]], rules[which[rows[r]]], NEVER
        for n in range(symbols.shape[1]):
            if symbols[r, n] >= 0:
                since = min(since, late[r, n])  # heard, not committed
        counts[SILENCE] = since if since < NEVER else counts[SILENCE] + 1
        counts[BLANK] = counts[BLANK] + 1 if blanks[r] else 0
        counts[LENGTH] += 1
        counts[QUIET] = counts[QUIET] + 1 if quiet[r] else 0
        if not counts[SPOKEN]:  # what was before the first character does not count
            counts[BLANK] = counts[LENGTH] = counts[QUIET] = 0
        if since < NEVER:
            counts[SPOKEN] = 1
        for k in range(len(own)):
            met = True
            for n in range(4):
                met = met and counts[n] >= own[k, n]
            ended[r] |= met
        ended[r] &= counts[SPOKEN] != 0
        if ended[r]:
            counts[SPOKEN] = 0
