"""Rates and noise over a stage."""

import pytest

from cortado.training.learning.schedule import learning_rate
from cortado.training.learning.stage import Stage


def test_the_rate_warms_up_and_falls_along_a_cosine() -> None:
    stage = Stage("a", 110, learning_rate=1.0, final_learning_rate=0.2, warmup=10)
    rates = [learning_rate(stage, step) for step in range(111)]
    assert rates[:3] == pytest.approx([0.1, 0.2, 0.3])
    assert rates[10] == 1.0
    assert rates[60] == pytest.approx(0.6)
    assert rates[110] == pytest.approx(0.2)
    assert rates[10:] == sorted(rates[10:], reverse=True)


def test_a_rate_that_is_set_alone_stays() -> None:
    stage = Stage("a", 10, learning_rate=1e-4)
    assert {learning_rate(stage, step) for step in range(11)} == {1e-4}


def test_the_rate_is_cut_at_the_papers_steps() -> None:
    stage = Stage("wsj", 100, learning_rate=1e-3, cuts=(60, 80), cut=0.1)
    found = [learning_rate(stage, step) for step in (0, 59, 60, 79, 80, 99)]
    assert found == pytest.approx([1e-3, 1e-3, 1e-4, 1e-4, 1e-5, 1e-5])
