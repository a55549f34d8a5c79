"""The edits between a reference and a hypothesis, as few as possible: those of jiwer."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

import jiwer

Unit = Literal["word", "char", "phone"]


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
    between = "" if unit == "char" else " "  # the only space at which jiwer parts words
    found: list[Edit] = []
    for chunk in process(between.join(expected), between.join(got)).alignments[0]:
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
