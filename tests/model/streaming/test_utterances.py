"""Emissions divided into utterances."""

import numpy as np
import pytest

from cortado.model.emission import Emission
from cortado.model.streaming.utterances import Segmentation, Utterances
from cortado.model.vocabulary import Vocabulary
from cortado.tests.model.streaming.scripted import emissions

LETTERS, ROW = Vocabulary("ab "), np.zeros(1, np.int64)


def stream(vocabulary: Vocabulary = LETTERS) -> Utterances:
    one = Utterances(1, vocabulary, 0)
    one.reset(ROW)
    return one


def said(one: Utterances, text: str, step: int, ended: bool = False) -> Segmentation:
    written = emissions([[Emission(LETTERS.names.index(letter)) for letter in text]])
    return one.step(ROW, written, ROW + step - 1, np.array([ended]))


def test_an_utterance_has_the_times_of_its_first_and_last_characters() -> None:
    one, none = stream(), (-1, 0, 0)
    found = [
        said(one, text, step, ended)
        for text, step, ended in (
            ("a", 10, False),
            ("ba", 20, False),
            ("", 30, True),
            ("", 40, True),
            ("b", 50, False),
            ("a", 55, True),
        )
    ]
    ends = [tuple(int(part[0]) for part in each[1:]) for each in found]
    assert ends == [none, none, (0, 10, 20), none, none, (1, 50, 55)]


@pytest.mark.parametrize(
    ("first", "second", "spaced"),
    [("a", "b", True), ("a", " b", False), ("a ", "b", False), ("a", "", False)],
)
def test_words_of_two_utterances_are_parted(first: str, second: str, spaced: bool) -> None:
    one = stream()
    assert not said(one, first, 1, True).spaces[0]  # no space before a stream's first word
    assert said(one, second, 2).spaces[0] == spaced
    assert one.snapshot(0)[1] == len(first + second) + spaced  # characters


def test_a_vocabulary_without_a_space_gets_none_and_phones_bring_their_own() -> None:
    for vocabulary in (Vocabulary("ab"), Vocabulary(phones=("aa", "b"))):
        one = stream(vocabulary)
        said(one, "a", 1, True)
        assert not said(one, "b", 2).spaces[0]
        assert one.snapshot(0)[1] == sum(map(len, vocabulary.texts))


def test_utterances_that_are_restored_go_on() -> None:
    one, other = stream(), stream()
    said(one, "a", 1, True)
    said(one, "b", 2)
    other.restore(0, one.snapshot(0))
    assert said(other, "b", 3, True) == said(one, "b", 3, True)
    assert said(other, "b", 4) == said(one, "b", 4)
