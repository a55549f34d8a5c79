"""Matched pairs against numbers worked out by hand, and against what chance alone does."""

import numpy as np
import pytest

from cortado.training.scoring.comparison import compare, matched_pairs, positions, segments
from cortado.training.scoring.edits import edits


def test_errors_lie_at_the_token_said_and_insertions_at_the_next() -> None:
    assert positions(edits("a b c", "a x c d")) == [0, 1, 0, 1]
    assert positions(edits("a b", "z a")) in ([1, 1, 0], [1, 1])
    assert positions(edits("", "a b")) == [2]


def test_two_tokens_that_both_have_right_part_two_segments() -> None:
    assert segments([1, 0, 0, 1], [0, 0, 0, 0]) == [(1, 0), (1, 0)]
    assert segments([1, 0, 1, 0], [0, 0, 1, 0]) == [(2, 1)]
    assert segments([0, 0, 0], [0, 0, 0]) == []
    assert segments([1, 0, 0, 0], [0, 1, 0, 1]) == [(1, 2)]


def test_p_is_that_of_the_mean_difference() -> None:
    pairs = [(1, 0), (2, 1), (0, 1), (1, 0)]  # mean 0.5, deviation 1, z = 1
    assert matched_pairs(pairs) == pytest.approx(0.3173, abs=1e-4)
    assert matched_pairs([(1, 1), (2, 2)]) == 1
    assert matched_pairs([]) == matched_pairs([(1, 0)]) == 1
    assert matched_pairs([(1, 0)] * 3) == 0


def test_equal_systems_differ_at_random_once_in_twenty() -> None:
    random = np.random.default_rng(0)
    ps = [matched_pairs(random.poisson(1.0, (60, 2)).tolist()) for _ in range(1000)]
    assert np.mean(np.array(ps) < 0.05) == pytest.approx(0.05, abs=0.02)


def test_a_better_system_is_found_and_its_interval_is_on_its_side() -> None:
    reference = "a b c d e f g h"
    good = [edits(reference, "a b c d e f g x")] * 40
    bad = [edits(reference, "x b c d y f g z")] * 30 + good[:10]
    speakers = [f"speaker {k % 8}" for k in range(40)]
    found = compare(good, bad, speakers)
    assert found.rate == pytest.approx(1 / 8)
    assert found.difference == pytest.approx((40 - 100) / 320)
    assert found.ci95[0] <= found.difference <= found.ci95[1] < 0
    assert found.p < 1e-6
    same = compare(good, good, speakers)
    assert (same.difference, same.ci95, same.p) == (0, (0, 0), 1)


def test_other_references_are_refused() -> None:
    with pytest.raises(ValueError, match="expected the same references"):
        compare([edits("a b", "a")], [edits("a", "a")], ["x"])
    with pytest.raises(ValueError, match="got 0 and 0 of 0"):
        compare([], [], [])
