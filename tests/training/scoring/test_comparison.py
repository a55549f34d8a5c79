"""Two systems on the same utterances."""

import pytest

from cortado.tests.training.scoring.heard import evaluated, utterance
from cortado.training.scoring.comparison import Compared, compared
from cortado.training.scoring.outputs import set_as_json
from cortado.training.scoring.report import comparison

REFERENCE = "a b c d e f g h"
GOOD = ["a b c d e f g x"] * 40
SAID = [utterance(f"speaker {k % 8}-{k}", REFERENCE) for k in range(40)]


def against(other: list[str]) -> Compared:
    """Compare the good system with another one."""
    [found] = compared([evaluated(SAID, GOOD)], {"tiny/dev": set_as_json(evaluated(SAID, other))})
    return found


def test_a_better_system_is_found_and_its_interval_is_on_its_side() -> None:
    found = against(["x b c d y f g z"] * 30 + GOOD[:10])
    assert found.utterances == 40
    assert found.rate == pytest.approx(1 / 8)
    assert found.difference == pytest.approx((40 - 100) / 320)
    assert found.ci95
    assert found.ci95[0] <= found.difference <= found.ci95[1] < 0
    assert found.significant
    same = against(GOOD)
    assert (same.difference, same.ci95, same.significant) == (0, (0, 0), False)


def test_of_one_utterance_significance_is_not_known() -> None:
    before = {"tiny/dev": set_as_json(evaluated(SAID[:1], ["x b c d y f g z"]))}
    [found] = compared([evaluated(SAID[:1], GOOD[:1])], before)
    assert (found.ci95, found.significant) == (None, None)
    sentence = "-25.00 points: one utterance does not tell whether that is significant."
    assert sentence in comparison(found)


def test_utterances_with_other_references_are_left_out() -> None:
    before = {"tiny/dev": set_as_json(evaluated(SAID[1:], GOOD[1:]))}
    before["tiny/dev"]["results"][0]["reference"] = "another"
    [found] = compared([evaluated(SAID, GOOD)], before)
    assert found.utterances == 38
    assert compared([evaluated(SAID[:1], GOOD[:1])], before) == []  # nothing that both could read
