"""Endpoint rules: where utterances end, by silence, blanks, length and a detector's quiet.

Silence is the time since the last symbol, whether it is committed or still awaits that: a search
commits symbols when they are some time old, and an utterance must not end between two of a word.
Blanks are the CTC head's, quiet is a voice activity detector's, if there is one. The rules count
whole steps of one stream, so an endpoint depends on the audio alone, and is the same live and
offline.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cortado.model.arrays import Rows
from cortado.model.compiled.jit import uncounted
from cortado.model.emission import Emissions
from cortado.model.features.framing import STEP_SECONDS

NEVER = 1 << 30  # steps
LATER = 0.2  # seconds after the last letter at which blanks or a detector's quiet begin
WAIT = 40  # steps without a character after which an utterance that has none begins anew
SILENCE, BLANK, LENGTH, QUIET, SPOKEN, WAITED = range(6)  # columns of an utterance's counts


@dataclass(frozen=True)
class Rule:
    """An utterance with at least one character ends when all of these times have passed.

    In the manner of Kaldi's endpointing rules (kaldi-asr, src/online2/online-endpoint.h).
    """

    silence: float = 0.0  # seconds since its last character
    blank: float = 0.0  # seconds of blanks from the CTC head, after its first character
    length: float = 0.0  # seconds since its first character
    quiet: float = 0.0  # seconds without speech by the detector, after its first character

    def __post_init__(self) -> None:
        """Check the times.

        Raises:
            ValueError: a time is negative or not finite, or all of them are zero.
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
        return tuple(map(_whole_steps, self.times))


def _whole_steps(seconds: float) -> int:
    """Return a time in steps, rounded up."""
    return math.ceil(round(seconds / STEP_SECONDS, 6))


Rules = tuple[Rule, ...]

RULES: Rules = (
    Rule(silence=0.8, blank=0.6),  # attention and CTC head agree
    Rule(silence=2.0),  # the attention is silent, though noise keeps the CTC head from blanks
    Rule(blank=3.0),  # the attention loops: it writes without speech
    Rule(silence=0.2, length=20.0),  # a long utterance ends at its next pause
    Rule(length=60.0),  # utterances are bounded
)

QUIET_RULES: Rules = (  # for streams with a voice activity detector
    Rule(silence=0.4, quiet=0.6),  # attention and detector agree
    *RULES[2:],  # loops and long utterances
)


def needs_vad(rules: Rules) -> bool:
    """Return whether any rule needs a voice activity detector."""
    return any(rule.quiet for rule in rules)


def rules_after(silence: float, *, has_detector: bool) -> Rules:
    """Return the rules by which an utterance ends after so many seconds of silence.

    They are rounded up to steps, so that there are few rules, whatever clients ask for.

    Raises:
        ValueError: the seconds are fewer than a letter may take, or without end.
    """
    if not LATER < silence < math.inf:
        raise ValueError(f"expected more than {LATER} seconds of silence, got {silence}")
    silence = _whole_steps(silence) * STEP_SECONDS
    if has_detector:
        first: Rules = (Rule(silence=silence - LATER, quiet=silence),)
    else:
        usual = Rule(silence=max(silence, RULES[1].silence))
        first = (Rule(silence=silence, blank=silence - LATER), usual)
    return (*first, Rule(blank=max(silence, RULES[2].blank)), *RULES[3:])


class Endpointer:
    """Finds the ends of utterances in S streams, one a row, each with its own rules."""

    def __init__(self, streams: int) -> None:
        self._known: dict[Rules, int] = {}
        self._rules = np.zeros((0, 0, 4), np.int64)  # (sets of rules, rules, 4) steps
        self._which = np.zeros(streams, np.int64)  # set of each row
        # (S, 6) steps since the last character, of blanks in a row, since the first character, of
        # quiet in a row; whether the utterance has a character; and steps without any
        self._counts = np.zeros((streams, 6), np.int64)
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
        """Reset the streams in (R,) rows, and set the rules of each."""
        self._counts[rows] = 0
        self._which[rows] = [self._use(own) for own in rules]

    def rules(self, row: int) -> Rules:
        """Return the rules of a row."""
        return list(self._known)[self._which[row]]

    def have_rules(self, rows: Rows) -> NDArray[np.bool_]:
        """Return (R,) which streams have any rules."""
        return self._which[rows] != 0

    def need_vad(self, rows: Rows) -> NDArray[np.bool_]:
        """Return (R,) which streams have rules with quiet."""
        asks = np.array([needs_vad(rules) for rules in self._known])
        return asks[self._which[rows]]

    def step(
        self,
        rows: Rows,
        emissions: Emissions,
        pending: NDArray[np.int32],
        blanks: NDArray[np.bool_],
        quiet: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.bool_]:
        """Return which of the streams in (R,) rows end an utterance with this step.

        Args:
            rows: which streams, each once.
            emissions: of the step.
            pending: (R,) steps since the newest symbol that is not committed yet, -1 for none.
            blanks: (R,) whether the CTC head gave the blank.
            quiet: (R,) whether the detector found no speech, for rules with quiet.
        """
        ended = np.zeros(len(rows), np.bool_)
        quiet = ended if quiet is None else quiet
        news = emissions.symbols, emissions.late, pending, blanks, quiet
        _follow(rows, *news, self._rules, self._which, self._counts, ended)
        return ended

    def wait(self, rows: Rows) -> NDArray[np.bool_]:
        """Return (R,) which utterances have waited for a first character for `WAIT` steps more."""
        waited = self._counts[rows, WAITED]
        return (waited > 0) & (waited % WAIT == 0)

    def snapshot(self, row: int) -> list[int]:
        """Return what `restore` takes."""
        return self._counts[row].tolist()

    def restore(self, row: int, counts: list[int]) -> None:
        """Give a row what `snapshot` returned."""
        self._counts[row] = counts


@uncounted(cached=True)
def _follow(
    rows: Any,
    symbols: Any,
    late: Any,
    pending: Any,
    blanks: Any,
    quiet: Any,
    rules: Any,
    which: Any,
    every: Any,
    ended: Any,
) -> None:
    """Count this step of (R,) rows in `every` (S, 6); set (R,) which utterances end with it."""
    for r in range(len(rows)):
        counts, own, since = every[rows[r]], rules[which[rows[r]]], NEVER
        for n in range(symbols.shape[1]):
            if symbols[r, n] >= 0:
                since = min(since, late[r, n])  # counted from its own frame, not from its commit
        committed = since < NEVER
        if pending[r] >= 0:
            since = min(since, pending[r])
        counts[SILENCE] = since if since < NEVER else counts[SILENCE] + 1
        counts[BLANK] = counts[BLANK] + 1 if blanks[r] else 0
        counts[LENGTH] += 1
        counts[QUIET] = counts[QUIET] + 1 if quiet[r] else 0
        if not counts[SPOKEN]:  # counts begin at the first character
            counts[BLANK] = counts[LENGTH] = counts[QUIET] = 0
        if committed:
            counts[SPOKEN] = 1
        for k in range(len(own)):
            met = True
            for n in range(4):
                met = met and counts[n] >= own[k, n]
            ended[r] |= met
        counts[WAITED] = 0 if counts[SPOKEN] or pending[r] >= 0 else counts[WAITED] + 1
        ended[r] &= counts[SPOKEN] != 0
        if ended[r]:
            counts[SPOKEN] = 0
