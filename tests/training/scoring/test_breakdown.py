"""Groups, confusions and the worst, by counts worked out by hand."""

from dataclasses import replace

import pytest

from cortado.tests.training.scoring.heard import evaluated, phones, utterance
from cortado.training.scoring.breakdown import (
    by_field,
    by_length,
    by_speaker,
    check_fields,
    confusions,
    symbol_matrix,
    total,
    worst,
)
from cortado.training.scoring.edits import Errors
from cortado.training.scoring.evaluate import Result, Rules


def results() -> list[Result]:
    said = [
        utterance("anna-1", "the cat sat", fields={"accent": "north", "score": 1.0}),
        utterance("anna-2", "a dog", fields={"accent": "north", "score": 2.0}),
        utterance("ben-1", "the cat", fields={"score": 3.0}),
    ]
    found = evaluated(said, ["the hat sat", "a dog", "a cat cat"]).results
    return [*found[:2], replace(found[2], utterance=replace(said[2], duration=9.0))]


def test_groups_add_up_to_the_whole() -> None:
    whole = total(results())
    assert whole == Errors(2, 0, 1, 7)
    for groups in (by_speaker(results()), by_length(results()), by_field(results(), "accent")):
        assert Errors(*map(sum, zip(*(group.errors for group in groups), strict=True))) == whole
        assert sum(group.utterances for group in groups) == 3


def test_speakers_come_worst_first_with_their_rates() -> None:
    ben, anna = by_speaker(results())
    assert (ben.name, ben.rate) == ("ben", 1.0)
    assert (anna.name, anna.rate, anna.utterances) == ("anna", 1 / 5, 2)
    assert ben.ci95 is None
    assert anna.ci95
    assert anna.ci95[0] <= anna.rate <= anna.ci95[1]


def test_lengths_come_in_their_order() -> None:
    assert [group.name for group in by_length(results())] == ["2 to 3 s", "8 to 12 s"]


def test_a_field_that_some_utterances_lack_has_a_group_for_them() -> None:
    groups = by_field(results(), "accent")
    assert [(group.name, group.utterances) for group in groups] == [("(none)", 1), ("north", 2)]


@pytest.mark.parametrize("field", ["age", "speaker"])
def test_a_field_that_no_utterance_has_is_named_with_those_there_are(field: str) -> None:
    wanted = rf"expected a field of the manifest .*, got '{field}' and accent, score; groups by sp"
    check_fields([one.utterance for one in results()], ["accent"])
    with pytest.raises(ValueError, match=wanted):
        check_fields([one.utterance for one in results()], ["accent", field])


def test_many_numbers_are_cut_in_quartiles() -> None:
    said = [utterance(f"anna-{k}", "a", fields={"score": k / 2}) for k in range(40)]
    groups = by_field(evaluated(said, ["a"] * 40).results, "score")
    assert [group.utterances for group in groups] == [10, 10, 10, 10]
    assert groups[0].name.startswith("0 to ")


def test_confusions_are_counted_and_the_most_frequent_come_first() -> None:
    said = [utterance(f"anna-{k}", "the cat is here") for k in range(3)]
    heard = ["the hat is here", "the hat here", "a the hat is hear"]
    found = confusions(evaluated(said, heard).results)
    assert found.substituted == [("cat", "hat", 3), ("here", "hear", 1)]
    assert found.deleted == [("is", 1)]
    assert found.inserted == [("a", 1)]


def test_the_matrix_counts_every_character_said_and_heard() -> None:
    said = [utterance("anna-1", "ab"), utterance("anna-2", "b")]
    symbols, matrix = symbol_matrix(evaluated(said, ["aa", "bc"]).results)
    assert symbols == ["a", "b", "c", ""]
    assert matrix == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0]]


def test_the_worst_have_the_most_errors_and_none_is_right() -> None:
    assert [one.utterance.id for one in worst(results(), 5)] == ["ben-1", "anna-1"]
    assert len(worst(results(), 1)) == 1


def test_phones_are_folded_by_the_corpus_s_rule_and_not_without() -> None:
    said = [utterance("anna-1", "", phones=phones("h# ix q tcl t"))]
    one = replace(evaluated(said, [""], Rules.named("phone", "none")).results[0])
    assert one.reference == "h# ix q tcl t"
    [folded] = evaluated(said, [""], Rules.named("phone", "corpus")).results
    assert folded.reference == "sil ih sil t"
    with pytest.raises(ValueError, match="expected phones in the manifest, got none for anna-2"):
        evaluated([utterance("anna-2", "a")], ["a"], Rules.named("phone"))
