"""How often phrases that streams expect are recognised, and what that costs all other words."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cortado.training.scoring.edits import Edit, edits
from cortado.training.scoring.error_rates import rate


class PhraseScore(NamedTuple):
    """Counts over all texts of a set."""

    said: int  # phrases, each as often as references have it
    wrong: int  # of these, with any word wrong or missing
    invented: int  # phrases that hypotheses have where nobody said them
    others: int  # words of references outside the phrases
    other_errors: int  # all edits but those of the phrases' words

    @property
    def wrong_rate(self) -> float:
        """The share of the phrases that is wrong."""
        return rate(self.wrong, self.said)

    @property
    def other_rate(self) -> float:
        """The word error rate of all else."""
        return rate(self.other_errors, self.others)


def phrase_score(texts: Iterable[tuple[str, str]], phrases: Sequence[str]) -> PhraseScore:
    """Return the score of phrases in references and hypotheses, of which the longest counts."""
    wanted = sorted((tuple(phrase.split()) for phrase in phrases), key=len, reverse=True)
    totals = [0] * len(PhraseScore._fields)
    for reference, hypothesis in texts:
        for k, counted in enumerate(_counts(edits(reference, hypothesis), wanted)):
            totals[k] += counted
    return PhraseScore(*totals)


def _counts(aligned: Sequence[Edit], wanted: Sequence[tuple[str, ...]]) -> PhraseScore:
    said = _found(aligned, [edit.reference for edit in aligned], wanted)
    heard = _found(aligned, [edit.hypothesis for edit in aligned], wanted)
    errors = [sum(edit.kind != "ok" for edit in found) for found in (aligned, *said)]
    words = [sum(edit.reference is not None for edit in found) for found in (aligned, *said)]
    return PhraseScore(
        said=len(said),
        wrong=sum(count > 0 for count in errors[1:]),
        invented=sum(any(edit.kind != "ok" for edit in found) for found in heard),
        others=words[0] - sum(words[1:]),
        other_errors=errors[0] - sum(errors[1:]),
    )


def _found(
    aligned: Sequence[Edit], column: Sequence[str | None], wanted: Sequence[tuple[str, ...]]
) -> list[Sequence[Edit]]:
    """Return the edits of each phrase in a column of them, from its first word to its last.

    Phrases are taken from the left, the longest that begins at a word.
    """
    places = [place for place, word in enumerate(column) if word is not None]
    words = tuple(column[place] for place in places)
    found, at = list[Sequence[Edit]](), 0
    while at < len(words):
        here = (len(one) for one in wanted if one == words[at : at + len(one)])
        length = next(here, 0)
        if length:
            found.append(aligned[places[at] : places[at + length - 1] + 1])
        at += max(length, 1)
    return found
