"""Alignments against jiwer's counts and against sclite's, where several are as good."""

import jiwer
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cortado.training.scoring.edits import Edit, Errors, Unit, count, edits, sclite_edits, tokens

texts = st.lists(st.text("ab'", min_size=1, max_size=3), max_size=8).map(" ".join)


@given(texts, texts, st.sampled_from(["word", "char", "phone"]))
@settings(max_examples=100, deadline=None)
def test_edits_are_as_many_as_jiwers_and_spell_both_texts(
    reference: str, hypothesis: str, unit: Unit
) -> None:
    found = edits(reference, hypothesis, unit)
    process = jiwer.process_characters if unit == "char" else jiwer.process_words
    output = process(reference, hypothesis)
    errors = count(found)
    assert errors[:3] == (output.substitutions, output.deletions, output.insertions)
    assert errors.length == len(tokens(reference, unit))
    said = [edit.reference for edit in found if edit.reference is not None]
    heard = [edit.hypothesis for edit in found if edit.hypothesis is not None]
    assert (said, heard) == (tokens(reference, unit), tokens(hypothesis, unit))


@given(texts, texts)
@settings(max_examples=100, deadline=None)
def test_sclite_s_cost_is_never_above_that_of_jiwers_edits(reference: str, hypothesis: str) -> None:
    def cost(errors: Errors) -> int:
        return 4 * errors.substitutions + 3 * (errors.deletions + errors.insertions)

    found = sclite_edits(reference.split(), hypothesis.split())
    assert cost(count(found)) <= cost(count(edits(reference, hypothesis)))
    assert [edit.reference for edit in found if edit.reference is not None] == reference.split()
    assert [edit.hypothesis for edit in found if edit.hypothesis is not None] == hypothesis.split()


def rows(found: list[Edit]) -> tuple[str, str]:
    """The two lines that sclite prints, with * for nothing."""
    return " ".join(one.reference or "*" for one in found), " ".join(
        one.hypothesis or "*" for one in found
    )


# Each line: what was said and heard, and how sclite's rule pairs them, worked out by hand: the
# cheapest by 4 and 3, and of equal ones, from the end, the pair, then the insertion.
TIES = [
    ("o ok", "ka nen ok", "* o ok", "ka nen ok"),  # the insertion comes first
    ("dui yin wei", "dui", "dui yin wei", "dui * *"),
    ("a a b", "a b", "a a b", "* a b"),  # which a is left out
    ("b", "b b", "* b", "b b"),
    ("a b c", "x y", "a b c", "* x y"),  # of three, the first is left out
    ("the cat sat", "the the cat sat", "* the cat sat", "the the cat sat"),
    ("a b", "b a", "a b *", "* b a"),  # 6 for two gaps, against 8 for two pairs
    ("a x b", "b y a", "a x b", "b y a"),  # 12 for three pairs, and for an a and four gaps
    ("", "a b", "* *", "a b"),
    ("a b", "", "a b", "* *"),
]


@pytest.mark.parametrize(("said", "heard", "top", "bottom"), TIES, ids=lambda text: text or "none")
def test_ties_are_broken_as_sclite_does(said: str, heard: str, top: str, bottom: str) -> None:
    assert rows(sclite_edits(said.split(), heard.split())) == (top, bottom)


def test_sclite_may_count_more_errors_than_the_fewest() -> None:
    said, heard = "1 2 3 4 a b c", "a b c 5 6 7 8"
    assert count(edits(said, heard)).total == 7  # all substituted, which costs sclite 28
    assert count(sclite_edits(said.split(), heard.split())) == Errors(0, 4, 4, 7)  # 24
