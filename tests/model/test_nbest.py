"""The texts of an utterance: all ways to choose its words, the written one first."""

import math
import time
from itertools import product

import numpy as np
import pytest

from cortado.model.captions import Alternative, Word, words_of
from cortado.model.emission import Character
from cortado.model.nbest import texts


def word(text: str, confidence: float, *others: tuple[str, float]) -> Word:
    return Word(text, 0.0, 1.0, confidence, tuple(Alternative(*one) for one in others))


def test_the_first_text_is_what_was_written_and_the_others_are_the_likeliest() -> None:
    random = np.random.default_rng(1)
    words = [
        word(f"w{n}", random.uniform(0.2, 1), *((f"w{n}{k}", random.uniform(0, 0.2)) for k in "ab"))
        for n in range(5)
    ]
    choices = [[(one.text, one.confidence), *vars(one)["alternatives"]] for one in words]
    ways = [
        [one if isinstance(one, tuple) else (one.text, one.confidence) for one in way]
        for way in product(*choices)
    ]
    every = {
        " ".join(text for text, _ in way): sum(math.log(sure) for _, sure in way) for way in ways
    }
    written = " ".join(one.text for one in words)
    found = texts(words, 8)
    assert str(found[0]) == written
    others = sorted((every[text] for text in every if text != written), reverse=True)
    assert [one.log_probability for one in found[1:]] == pytest.approx(others[:7], abs=1e-3)
    assert [every[str(one)] for one in found[1:]] == pytest.approx(others[:7])
    assert found[0].log_probability == pytest.approx(every[written], abs=1e-3)


def test_a_word_in_place_of_another_has_its_times_and_its_own_confidence() -> None:
    first, second = texts([Word("a", 1.0, 1.2, 0.6, (Alternative("b", 0.1),))], 2)
    assert first.words == (Word("a", 1.0, 1.2, 0.6, (Alternative("b", 0.1),)),)
    assert [(one.text, one.start, one.end, one.confidence) for one in second.words] == [
        ("b", 1.0, 1.2, 0.1)
    ]


def test_a_long_utterance_takes_a_time_in_proportion() -> None:
    doubted = [word(f"w{n}", 0.5, *((f"w{n}{k}", 0.05) for k in range(10))) for n in range(2000)]
    began = time.process_time()
    found = texts(doubted, 10)
    assert time.process_time() - began < 30  # each word copied all before it once
    assert [len(one.words) for one in found] == [2000] * 10


def test_what_nobody_doubts_has_one_text_and_nothing_asked_for_gives_none() -> None:
    sure = [word("a", 1.0), word("b", 1.0)]
    assert [str(one) for one in texts(sure, 10)] == ["a b"]
    assert [str(one) for one in texts([word("a", 0.5, ("b", 0.4))], 1)] == ["a"]
    assert texts(sure, 0) == []
    assert [str(one) for one in texts([], 3)] == [""]


def test_alternatives_share_the_probability_that_a_word_is_wrong() -> None:
    spelt = [
        Character(one, 1.0, confidence=sure)
        for one, sure in [("a", 0.8), (" ", 1.0), ("b", 0.9), ("c", 0.6)]
    ]
    shares = {8: [("x", 0.5)], 11: [("y", 0.25), ("z", 0.1)]}
    first, second = words_of(spelt, shares, 7)
    assert first.alternatives == (Alternative("x", 0.1),)
    assert second.alternatives == (Alternative("y", 0.1), Alternative("z", 0.04))
