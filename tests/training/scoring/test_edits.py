"""Alignments against jiwer's counts."""

import jiwer
from hypothesis import given, settings
from hypothesis import strategies as st

from cortado.training.scoring.edits import Unit, count, edits, tokens

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
