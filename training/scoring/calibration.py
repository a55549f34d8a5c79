"""Whether the confidence of words is calibrated: of those at 70 %, are 70 % right?"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cortado.training.scoring.evaluate import Result

BINS = 10  # of the same width


class Bin(NamedTuple):
    """The words whose confidence lies between two bounds."""

    low: float
    high: float
    words: int
    confidence: float  # their mean
    correct: float  # the share of them that is right


def judged(result: Result) -> list[tuple[slice, bool]]:
    """Return the places of each heard word's characters, and whether the word is right.

    The edit alignment says so. There are none if words were changed before they were compared.
    """
    text = "".join(one.text for one in result.characters)
    words = [slice(*each.span()) for each in re.finditer(r"\S+", text)]
    heard = [edit for edit in result.edits if edit.hypothesis is not None]
    if [text[places] for places in words] != [edit.hypothesis for edit in heard]:
        return []
    return [(places, edit.kind == "ok") for places, edit in zip(words, heard, strict=True)]


def rated(results: Iterable[Result]) -> list[tuple[float, bool]]:
    """Return each heard word's confidence, and whether it is right.

    There are none if all are certain, as those of a search that has no confidence.
    """
    found = [
        (min(one.confidence for one in result.characters[places]), right)
        for result in results
        for places, right in judged(result)
    ]
    return found if any(confidence < 1 for confidence, _ in found) else []


def reliability(words: Sequence[tuple[float, bool]]) -> list[Bin]:
    """Return the bins of confidence that have words, the lowest first."""
    bins: list[list[tuple[float, bool]]] = [[] for _ in range(BINS)]
    for confidence, right in words:
        bins[min(int(confidence * BINS), BINS - 1)].append((confidence, right))
    return [
        Bin(
            n / BINS,
            (n + 1) / BINS,
            len(each),
            sum(confidence for confidence, _ in each) / len(each),
            sum(right for _, right in each) / len(each),
        )
        for n, each in enumerate(bins)
        if each
    ]


def calibration_error(bins: Sequence[Bin]) -> float:
    """Return the expected calibration error (Guo et al. 2017).

    It is the mean over words of what lies between a bin's confidence and its share of right words.
    """
    words = sum(each.words for each in bins)
    return sum(each.words * abs(each.confidence - each.correct) for each in bins) / words
