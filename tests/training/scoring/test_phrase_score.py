"""Phrases scored apart, by counts worked out by hand."""

from cortado.tests.training.scoring.heard import evaluated, printed, utterance
from cortado.training.scoring.evaluate import Rules
from cortado.training.scoring.outputs import set_as_json
from cortado.training.scoring.phrase_score import PhraseScore, phrase_score
from cortado.training.scoring.report import further

NAMES = ("ada", "ada lovelace", "bank of england")


def test_a_phrase_is_right_only_as_a_whole() -> None:
    texts = [
        ("ada lovelace met ada", "ada loveless met ada"),  # one phrase of two wrong
        ("the bank of england", "the bank of england"),
    ]
    assert phrase_score(texts, NAMES) == PhraseScore(3, 1, 0, 2, 0)
    within = [("bank of england", "bank of the england")]
    assert phrase_score(within, NAMES) == PhraseScore(1, 1, 0, 0, 0)


def test_words_of_a_phrase_count_as_others_where_they_stand_alone() -> None:
    texts = [("a bank of sand", "a bank sand")]
    assert phrase_score(texts, NAMES) == PhraseScore(0, 0, 0, 4, 1)


def test_a_phrase_that_nobody_said_is_invented_and_an_error_of_the_other_words() -> None:
    texts = [("i had a", "ada a"), ("so", "so ada lovelace")]
    found = phrase_score(texts, NAMES)
    assert found == PhraseScore(0, 0, 2, 4, 4)  # i and had, and two words inserted
    assert found.other_rate == 1.0
    assert found.wrong_rate == 0.0


def test_a_set_has_the_phrases_of_its_rules() -> None:
    said = [utterance("u-1", "so ada lovelace sat"), utterance("u-2", "ada")]
    rules = Rules.named(phrases=["Ada", "Ada Lovelace"])
    one = evaluated(said, ["ada love lace", ""], rules)
    # Of four edits one is of lovelace, one of the second ada; so is missing, and lace is for sat.
    assert one.phrases == PhraseScore(2, 2, 0, 2, 2)
    assert set_as_json(one)["phrases"]["wrong"] == 2
    shown = printed(*further(one))
    assert "tiny/dev: 2 of 2 phrases wrong (100.0 %), 100.0 % of the other words;" in shown
    assert set_as_json(evaluated(said, ["", ""]))["phrases"] is None
