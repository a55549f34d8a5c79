"""Error rates of hypotheses against their references, with confidence intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from cortado.training.data.corpora.folder import NOBODY
from cortado.training.scoring.edits import Errors, Unit, errors
from cortado.training.scoring.student import NORMAL, student

RESAMPLES = 10_000
RESAMPLES_AT_ONCE = 500  # bounds the memory: this many times the speakers
LOOP_LENGTH = 1.3  # a hypothesis longer than this times its reference repeats itself ...
LOOP_CHARACTERS = 2  # ... if it is this many characters longer

Counts = NDArray[np.int64]
Interval = tuple[float, float] | None  # not known of a single utterance


@dataclass(frozen=True)
class Score:
    """The error rates of a set of hypotheses, as fractions; counts are of the unit."""

    wer: float
    cer: float
    wer_ci95: Interval
    cer_ci95: Interval
    substitutions: int
    deletions: int
    insertions: int
    loops: int
    unit: Unit = "word"

    @property
    def rate(self) -> float:
        """The error rate of the unit: of words or phones `wer`, of characters `cer`."""
        return self.cer if self.unit == "char" else self.wer

    @property
    def rate_ci95(self) -> Interval:
        """Its interval."""
        return self.cer_ci95 if self.unit == "char" else self.wer_ci95


def is_loop(reference: str, hypothesis: str) -> bool:
    """Return whether a hypothesis is too long to be anything but a repetition."""
    said, heard = len(reference.strip()), len(hypothesis.strip())
    return heard - said >= LOOP_CHARACTERS and heard > LOOP_LENGTH * said


def rate(count: int, length: int) -> float:
    """Return errors per reference token; without any reference tokens, the errors (as jiwer)."""
    return count / max(length, 1)


def score(pairs: Sequence[tuple[str, str]], speakers: Sequence[str], unit: Unit = "word") -> Score:
    """Return the score of N (reference, hypothesis) pairs with their N speakers.

    Phones are words here: symbols between spaces.

    Raises: ValueError without pairs, or with another number of speakers.
    """
    if not pairs or len(pairs) != len(speakers):
        raise ValueError(
            f"expected a speaker for each of at least one pair, "
            f"got {len(pairs)} pairs and {len(speakers)} speakers"
        )
    words = [errors(*pair) for pair in pairs]
    characters = [errors(*pair, "char") for pair in pairs]
    counted = characters if unit == "char" else words
    return Score(
        wer=_total_rate(words),
        cer=_total_rate(characters),
        wer_ci95=interval(words, speakers),
        cer_ci95=interval(characters, speakers),
        substitutions=sum(one.substitutions for one in counted),
        deletions=sum(one.deletions for one in counted),
        insertions=sum(one.insertions for one in counted),
        loops=sum(is_loop(*pair) for pair in pairs),
        unit=unit,
    )


def _total_rate(counts: Sequence[Errors]) -> float:
    return rate(sum(one.total for one in counts), sum(one.length for one in counts))


def interval(counts: Sequence[Errors], speakers: Sequence[str]) -> Interval:
    """Return the 95 % interval, from 0 on, of the error rate of N utterances with N speakers."""
    totals = np.array([one.total for one in counts])
    lengths = np.array([one.length for one in counts])
    found = bootstrap_interval(totals, lengths, speakers)
    return found and (max(found[0], 0.0), found[1])


def bootstrap_interval(totals: Counts, lengths: Counts, speakers: Sequence[str]) -> Interval:
    """Return the 95 % interval of sum(totals) / sum(lengths), from (N,) counts per utterance.

    Percentile bootstrap (Bisani & Ney 2004) over whole speakers: utterances of one speaker are
    not independent. An utterance of an unknown speaker is its own speaker, and a set of a single
    speaker is drawn by utterance.

    The bootstrap knows the spread of K speakers as little as their own standard deviation does, so
    the interval is widened about the rate: by Student's t for K - 1 degrees of freedom against the
    normal's, and by sqrt(K / (K - 1)), as draws from K have K - 1 in place of K in their variance
    (Hesterberg 2015, section 5.3). With one utterance there is no spread, and no interval.
    """
    own = [f"\0{k}" if one in NOBODY else one for k, one in enumerate(speakers)]
    groups = np.unique(own, return_inverse=True)[1]
    if groups.max(initial=0) == 0:
        groups = np.arange(len(totals))
    group_errors = np.bincount(groups, weights=totals)  # (K,)
    group_lengths = np.bincount(groups, weights=lengths)  # (K,)
    count = len(group_errors)
    if count < 2:
        return None
    random = np.random.default_rng(0)
    rates = []
    for _ in range(RESAMPLES // RESAMPLES_AT_ONCE):
        draws = random.multinomial(count, np.full(count, 1 / count), size=RESAMPLES_AT_ONCE)
        rates.append(draws @ group_errors / np.maximum(draws @ group_lengths, 1))
    mean = group_errors.sum() / max(group_lengths.sum(), 1)
    wider = student(count) / NORMAL * sqrt(count / (count - 1))
    low, high = mean + wider * (np.percentile(np.concatenate(rates), [2.5, 97.5]) - mean)
    return float(low), float(high)
