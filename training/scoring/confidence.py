"""The coefficients of a checkpoint's confidence, fitted to recordings whose text is known.

A search gives one confidence for each character, already combined from three measurements by the
checkpoint's own coefficients. To fit those, the measurements are needed one by one. So the
recordings are heard twice, with coefficients that let one measurement through: the log-odds among
the hypotheses, then the strangeness of the voice. The third, how long a character waited, is in the
character itself.

The fit is a logistic regression of whether a word is right (Platt 1999) on the measurements of its
least sure character. Which one that is depends on the coefficients, so both are found in turn.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cortado.model.checkpoint_reader import CARD, read_card
from cortado.model.config import Confidence
from cortado.model.emission import CERTAIN
from cortado.model.features.framing import STEP_SECONDS
from cortado.model.progress import Progress
from cortado.model.search.settings import Beam
from cortado.model.streaming.interface import StreamingRecognizer
from cortado.model.whole_file import write_tree
from cortado.training.data.evaluation_sets import NamedSet
from cortado.training.scoring.calibration import judged
from cortado.training.scoring.evaluate import Result, Rules, evaluate
from cortado.training.scoring.systems import served

Array = NDArray[np.float64]
Rated = list[tuple[float, bool]]  # the confidence of words, and whether each is right

ODDS = Confidence(slope=0.5)  # half of the log-odds: thousandths tell them apart
VOICE = Confidence(slope=0.0, strangeness=1.0)
FIRST = np.array([1.0, -1.0, -1.0, 0.0])  # factors and offset that choose characters first
RIDGE = 0.1  # weight of the squared coefficients: they stay finite where a few words decide
ROUNDS, STEPS = 50, 50
LEAST_CHANGE = 1e-5  # of any number, in nats


class HeardWord(NamedTuple):
    """A word that was heard."""

    measured: Array  # (n, 3) of its characters: log-odds, squared share of the wait, strangeness
    right: bool


def hear(
    load: Callable[[Confidence], StreamingRecognizer],
    sets: Sequence[NamedSet],
    progress: Progress,
) -> list[list[HeardWord]]:
    """Return the words that a recogniser hears in each set.

    Args:
        load: returns the recogniser with the coefficients that it is given.
        sets: of utterances.
        progress: called with a set's name, its seconds done and its seconds.

    Raises:
        ValueError: the recogniser has no search, and so no confidence.
        AudioError: a recording cannot be read.
    """
    rules = Rules.named(normalisation="corpus")  # punctuation of a text is no error
    found = []
    for one in (ODDS, VOICE):
        recognizer = load(one)
        if recognizer.beam.width == 1:
            raise ValueError(
                f"expected a search, which confidence is of, got the scan of {recognizer.name}"
            )
        scores = evaluate(served(recognizer, recognizer.name), sets, rules, progress)
        for failure in chain.from_iterable(score.failures for score in scores):
            raise failure
        found.append(scores)
    return [
        heard_words(odds.results, voice.results, recognizer.beam)
        for odds, voice in zip(*found, strict=True)
    ]


def heard_words(odds: Sequence[Result], voice: Sequence[Result], beam: Beam) -> list[HeardWord]:
    """Return the words of utterances that were heard with the coefficients ODDS and with VOICE.

    Args:
        odds: the utterances, heard with ODDS.
        voice: the same, heard with VOICE.
        beam: settings of the search, of which the longest wait counts.
    """
    longest = STEP_SECONDS * max(beam.max_wait, 1)
    found = []
    for one, other in zip(odds, voice, strict=True):
        waits = np.array([character.late for character in one.characters])
        shares = np.minimum(waits / longest, 1)
        own = _log_odds(one) / ODDS.slope, shares**2, _log_odds(other) / VOICE.strangeness
        measured = np.stack(own, 1)
        found += [HeardWord(measured[places], right) for places, right in judged(one)]
    return found


def _log_odds(result: Result) -> Array:
    """Return the log-odds of the confidence of an utterance's characters."""
    least = 0.5 / CERTAIN  # what is rounded to nothing
    confidence = np.array([character.confidence for character in result.characters])
    clipped = np.clip(confidence, least, 1 - least)
    found: Array = np.log(clipped / (1 - clipped))
    return found


def fit(sets: Sequence[Sequence[HeardWord]]) -> Confidence:
    """Return the coefficients that fit the words of several sets, each of which counts the same.

    Raises:
        ValueError: the words are all right, or all wrong.
    """
    words = [word for one in sets for word in one]
    right = np.array([word.right for word in words], np.float64)
    if not 0 < right.sum() < len(words):
        raise ValueError(
            f"expected words of which some are right and some are wrong, got {len(words)} of which "
            f"{right.sum():.0f} are right"
        )
    weights = np.concatenate([np.full(len(one), 1 / max(len(one), 1)) for one in sets])
    weights *= len(words) / weights.sum()
    measured = np.concatenate([word.measured for word in words])
    lengths = np.array([len(word.measured) for word in words])
    of, starts = np.repeat(np.arange(len(words)), lengths), lengths.cumsum() - lengths
    coefficients = FIRST
    for _ in range(ROUNDS):
        least = np.lexsort((measured @ coefficients[:-1], of))[starts]  # of each word
        change = _logistic_regression(measured[least], right, weights) - coefficients
        coefficients = coefficients + change / 2  # the whole may choose other characters to and fro
        if abs(change).max() < LEAST_CHANGE:
            break
    slope, wait, strangeness, offset = (round(float(one), 3) for one in coefficients)
    return Confidence(slope, offset, wait, strangeness)


def _logistic_regression(measured: Array, right: Array, weights: Array) -> Array:
    """Return the coefficients (F + 1,) of (N, F) measurements, the intercept last.

    They are found by Newton's method.
    """
    rows = np.column_stack([measured, np.ones(len(measured))])
    found = np.zeros(rows.shape[1])
    for _ in range(STEPS):
        sure = _logistic(rows @ found)
        gradient = rows.T @ (weights * (right - sure)) - RIDGE * found
        hessian = (rows.T * (weights * sure * (1 - sure))) @ rows + RIDGE * np.eye(len(found))
        change = np.linalg.solve(hessian, gradient)
        found += change
        if abs(change).max() < LEAST_CHANGE:
            break
    return found


def rated_by(coefficients: Confidence, words: Sequence[HeardWord]) -> Rated:
    """Return the confidence of words by some coefficients, and whether each is right."""
    factors = np.array([coefficients.slope, coefficients.wait, coefficients.strangeness])
    odds = np.array([(word.measured @ factors).min() for word in words]) + coefficients.offset
    return [(sure, word.right) for sure, word in zip(_logistic(odds).tolist(), words, strict=True)]


def _logistic(odds: Array) -> Array:
    found: Array = 1 / (1 + np.exp(-odds))
    return found


def write(folder: Path, coefficients: Confidence) -> None:
    """Write the coefficients into a checkpoint's `model.json`.

    Raises:
        CheckpointError: the checkpoint is missing or broken.
    """
    content = read_card(folder)
    content["config"]["decoder"]["confidence"] = list(coefficients)
    write_tree(folder / CARD, content)
