"""The edits between a reference and a hypothesis: jiwer's, and sclite's.

Error rates are those of jiwer: the fewest edits (Levenshtein). sclite (NIST) weighs a substitution
4, a deletion and an insertion 3, so it may prefer four edits to three; where both find the same
number they may still pair other words. Papers print either, so both are here.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

import jiwer
import numpy as np
from numpy.typing import NDArray

Unit = Literal["word", "char", "phone"]

SUBSTITUTION, GAP = 4, 3  # sclite's weights
DIAGONAL, DELETION, INSERTION = range(3)


class Edit(NamedTuple):
    """A token of the reference and the token aligned with it; None for no token."""

    reference: str | None
    hypothesis: str | None

    @property
    def kind(self) -> str:
        """What happened: ok, sub, del or ins."""
        if self.reference is None:
            return "ins"
        if self.hypothesis is None:
            return "del"
        return "ok" if self.reference == self.hypothesis else "sub"


class Errors(NamedTuple):
    """The edits that turn a reference into a hypothesis, and the reference's length."""

    substitutions: int
    deletions: int
    insertions: int
    length: int

    @property
    def total(self) -> int:
        """All the edits."""
        return self.substitutions + self.deletions + self.insertions


def tokens(text: str, unit: Unit) -> list[str]:
    """Return the tokens of a text: words or phones between spaces, or characters with spaces."""
    return list(text.strip()) if unit == "char" else text.split()


def edits(reference: str, hypothesis: str, unit: Unit = "word") -> list[Edit]:
    """Return jiwer's edits in order, with the correct tokens among them."""
    process = jiwer.process_characters if unit == "char" else jiwer.process_words
    expected, got = tokens(reference, unit), tokens(hypothesis, unit)
    found: list[Edit] = []
    for chunk in process(reference, hypothesis).alignments[0]:
        left: list[str | None] = [*expected[chunk.ref_start_idx : chunk.ref_end_idx]]
        right: list[str | None] = [*got[chunk.hyp_start_idx : chunk.hyp_end_idx]]
        width = max(len(left), len(right))
        left += [None] * (width - len(left))
        right += [None] * (width - len(right))
        found += map(Edit, left, right)
    return found


def count(aligned: Sequence[Edit]) -> Errors:
    """Return the number of edits of each kind."""
    kinds = Counter(edit.kind for edit in aligned)
    length = len(aligned) - kinds["ins"]
    return Errors(kinds["sub"], kinds["del"], kinds["ins"], length)


def errors(reference: str, hypothesis: str, unit: Unit = "word") -> Errors:
    """Return the number of jiwer's edits of each kind; of characters, spaces are counted too."""
    return count(edits(reference, hypothesis, unit))


def sclite_edits(reference: Sequence[str], hypothesis: Sequence[str]) -> list[Edit]:
    """Return the edits that sclite finds, in order.

    Of equal costs it takes the pair of tokens first, then the insertion, then the deletion, looked
    at from the end (NIST SCTK, network alignment); so gaps come before pairs.
    """
    step = np.empty((len(reference) + 1, len(hypothesis) + 1), np.int8)
    step[:, 0], step[0, :] = DELETION, INSERTION
    above = [GAP * k for k in range(len(hypothesis) + 1)]
    for i, token in enumerate(reference, 1):
        row = [GAP * i]
        for k, other in enumerate(hypothesis, 1):
            pair = above[k - 1] + (0 if token == other else SUBSTITUTION)
            deletion, insertion = above[k] + GAP, row[k - 1] + GAP
            if pair <= deletion and pair <= insertion:
                step[i, k], best = DIAGONAL, pair
            elif deletion < insertion:
                step[i, k], best = DELETION, deletion
            else:
                step[i, k], best = INSERTION, insertion
            row.append(best)
        above = row
    return _walk(step, reference, hypothesis)


def _walk(
    step: NDArray[np.int8], reference: Sequence[str], hypothesis: Sequence[str]
) -> list[Edit]:
    """Return the edits along the best steps, from the end."""
    i, k = len(reference), len(hypothesis)
    found: list[Edit] = []
    while i or k:
        taken = step[i, k]
        i, k = i - (taken != INSERTION), k - (taken != DELETION)
        left = None if taken == INSERTION else reference[i]
        right = None if taken == DELETION else hypothesis[k]
        found.append(Edit(left, right))
    return found[::-1]
