"""Two systems on the same utterances."""

import pytest

from cortado.training.scoring.comparison import compare
from cortado.training.scoring.edits import edits


def test_a_better_system_is_found_and_its_interval_is_on_its_side() -> None:
    reference = "a b c d e f g h"
    good = [edits(reference, "a b c d e f g x")] * 40
    bad = [edits(reference, "x b c d y f g z")] * 30 + good[:10]
    speakers = [f"speaker {k % 8}" for k in range(40)]
    found = compare(good, bad, speakers)
    assert found.rate == pytest.approx(1 / 8)
    assert found.difference == pytest.approx((40 - 100) / 320)
    assert found.ci95[0] <= found.difference <= found.ci95[1] < 0
    assert found.significant
    same = compare(good, good, speakers)
    assert (same.difference, same.ci95, same.significant) == (0, (0, 0), False)


def test_other_references_are_refused() -> None:
    with pytest.raises(ValueError, match="expected the same references"):
        compare([edits("a b", "a")], [edits("a", "a")], ["x"])
    with pytest.raises(ValueError, match="got 0 and 0 of 0"):
        compare([], [], [])
