"""The confidence of words is held against whether they are right."""

import pytest

from cortado.model.emission import Character
from cortado.training.data.manifest import Utterance
from cortado.training.scoring.calibration import calibration_error, rated, reliability
from cortado.training.scoring.evaluate import Result


def result(said: str, heard: str, confidence: list[float], compared: str | None = None) -> Result:
    characters = tuple(
        Character(one, 0.04 * k, 0.0, sure)
        for k, (one, sure) in enumerate(zip(heard, confidence, strict=True))
    )
    utterance = Utterance("one", None, 1.0, "somebody", said)  # type: ignore[arg-type]
    return Result(utterance, characters, said, heard if compared is None else compared)


def test_a_word_is_as_sure_as_its_least_sure_character_and_right_where_it_is_aligned() -> None:
    one = result("a bee", "a be", [0.9, 1.0, 0.8, 0.3])
    assert rated([one]) == [(0.9, True), (0.3, False)]


def test_a_search_without_confidence_is_not_rated() -> None:
    certain = result("a bee", "a be", [1.0] * 4)
    assert rated([certain]) == []
    assert len(rated([certain, result("a", "a", [0.9])])) == 3


def test_words_that_were_changed_before_they_were_compared_are_left_out() -> None:
    assert rated([result("a", "A", [0.9], compared="a")]) == []


def test_the_calibration_error_is_the_mean_distance_of_bins() -> None:
    sure = [(0.95, True)] * 3 + [(0.95, False)]
    bins = reliability([*sure, (0.25, False), (0.25, True), (1.0, True)])
    assert [(one.low, one.words) for one in bins] == [(0.2, 2), (0.9, 5)]
    assert bins[1].confidence == pytest.approx(0.96)
    assert bins[1].correct == pytest.approx(0.8)
    assert calibration_error(bins) == pytest.approx((5 * 0.16 + 2 * 0.25) / 7)
    assert calibration_error(reliability([(0.5, True), (0.5, False)])) == 0
