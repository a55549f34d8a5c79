"""Where utterances end, by rules on what was written and heard."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortado.model.emission import Emission, Emissions
from cortado.model.streaming.endpoint import QUIET_RULES, RULES, Endpointer, Rule, rules_after
from cortado.tests.model.streaming.scripted import emissions

ROW = np.zeros(1, np.int64)
NONE = np.full(1, -1, np.int32)  # no symbol awaits its commit

Steps = list[tuple[bool, bool]]  # whether a character was written, whether the head heard none

steps = st.lists(st.tuples(st.booleans(), st.booleans()), max_size=60)


def emitted(wrote: list[bool], late: int = 0) -> Emissions:
    return emissions([[Emission(3, late)] if each else [] for each in wrote])


def endpointer(streams: int, *rules: Rule) -> Endpointer:
    one = Endpointer(streams)
    one.reset(np.arange(streams), [rules or RULES] * streams)
    return one


def ends(heard: Steps, *rules: Rule, by_quiet: bool = False) -> list[int]:
    """Return the steps, from 0 on, after which an utterance of one stream ends.

    Each step is whether it wrote, and whether it was blank, or quiet for a detector.
    """
    one, found = endpointer(1, *rules), []
    for step, (wrote, second) in enumerate(heard):
        blank, quiet = np.array([second and not by_quiet]), np.array([second])
        if one.step(ROW, emitted([wrote]), NONE, blank, quiet if by_quiet else None)[0]:
            found.append(step)
    return found


WROTE, SILENT, BUSY = (True, False), (False, True), (False, False)


def test_an_utterance_ends_where_its_silence_is_long_enough() -> None:
    assert ends([WROTE] + [SILENT] * 9, Rule(silence=0.2)) == [5]


def test_before_its_first_character_no_utterance_ends() -> None:
    assert ends([SILENT] * 500) == []


def test_an_utterance_ends_once() -> None:
    assert ends([WROTE] + [SILENT] * 500) == [20]


def test_silence_counts_from_when_a_character_was_heard_not_from_its_commitment() -> None:
    one = endpointer(1, Rule(silence=0.2))
    found = [
        one.step(ROW, emitted([wrote], 2), NONE, np.array([False]))[0]
        for wrote in (True, *[False] * 3)
    ]
    assert found == [False, False, False, True]


@pytest.mark.parametrize(
    ("waits", "expected"),
    [([0, 1, 0, 1, 2, 3, 4, 5], [7]), ([-1] * 8, [0]), ([2, 3, -1, -1, -1, -1, 1], [3])],
)
def test_what_awaits_its_commit_is_no_silence(waits: list[int], expected: list[int]) -> None:
    def ends(first: bool) -> list[int]:
        """Return the steps at which it ends, the first of which may commit an old symbol."""
        one, found = endpointer(1, Rule(silence=0.2)), []
        for step, wait in enumerate(waits):
            wrote = emitted([first and step == 0], late=9)
            if one.step(ROW, wrote, np.array([wait], np.int32), np.array([False]))[0]:
                found.append(step)
        return found

    assert ends(first=True) == expected
    assert ends(first=False) == []  # no utterance has begun


def test_blanks_have_to_last() -> None:
    rule = Rule(silence=0.08, blank=0.2)
    assert ends([WROTE, BUSY, *[SILENT] * 9], rule) == [6]
    assert ends([WROTE, *[SILENT] * 4, BUSY, *[SILENT] * 9], rule) == [10]


def test_blanks_before_an_utterance_do_not_end_it() -> None:
    early = [SILENT] * 100 + [(True, True)] + [SILENT] * 9  # before the head hears it
    assert ends(early, Rule(silence=0.04, blank=0.2)) == [105]
    assert ends(early) == []


def test_quiet_has_to_last_and_to_follow_a_character() -> None:
    rule = Rule(silence=0.08, quiet=0.2)
    assert ends(
        [(False, True)] * 50 + [(True, True)] + [(False, True)] * 9, rule, by_quiet=True
    ) == [55]
    loud = [(True, False), *[(False, True)] * 4, (False, False), *[(False, True)] * 9]
    assert ends(loud, rule, by_quiet=True) == [10]


def test_without_a_detector_nothing_is_quiet() -> None:
    assert ends([WROTE] + [SILENT] * 500, Rule(quiet=0.04), Rule(length=0.4)) == [10]


def test_with_a_detector_the_loop_and_the_long_rules_stay() -> None:
    assert {rule.times for rule in QUIET_RULES if not rule.quiet} < {rule.times for rule in RULES}
    assert ends([(True, False)] * 5000, *QUIET_RULES, by_quiet=True) != []
    assert ends([(True, True)] * 500, *QUIET_RULES)[0] == 75
    assert ends([WROTE] * 501 + [SILENT] * 9, *QUIET_RULES) == [505]
    assert sum(rule.quiet > 0 for rule in QUIET_RULES) == 1


def test_all_of_a_rule_and_any_of_the_rules_is_enough() -> None:
    rules = Rule(silence=0.4), Rule(silence=0.08, length=0.4)
    assert ends([WROTE] + [SILENT] * 20, *rules) == [10]
    assert ends([WROTE] * 15 + [SILENT] * 20, *rules) == [16]


def test_an_utterance_without_a_pause_is_bounded() -> None:
    longest = max(rule.length for rule in RULES)
    assert np.diff([0, *ends([(True, False)] * 5000)]).max() <= longest / 0.04 + 1


@given(streams=st.lists(steps, min_size=2, max_size=5))
def test_streams_do_not_feel_each_other(streams: list[Steps]) -> None:
    every = [(Rule(silence=0.12, blank=0.08), Rule(length=0.8)), (Rule(silence=0.2),), ()]
    rules = [every[row % 3] for row in range(len(streams))]
    many = Endpointer(len(streams))
    many.reset(np.arange(len(streams)), rules)
    assert [many.rules(row) for row in range(len(streams))] == rules
    found: list[list[int]] = [[] for _ in streams]
    for step in range(max(map(len, streams))):
        rows = np.array([row for row, heard in enumerate(streams) if step < len(heard)])
        wrote, blank = zip(*(streams[row][step] for row in rows), strict=True)
        pending = NONE.repeat(len(rows))
        for row in rows[many.step(rows, emitted(list(wrote)), pending, np.array(blank))]:
            found[row].append(step)
    assert found == [
        ends(heard, *own) if own else [] for own, heard in zip(rules, streams, strict=True)
    ]


@given(before=steps, after=steps)
def test_a_stream_that_is_resumed_ends_where_it_would_have(before: Steps, after: Steps) -> None:
    rules = Rule(silence=0.12, blank=0.08), Rule(length=0.4)
    first, second = endpointer(1, *rules), endpointer(3, *rules)
    for wrote, blank in before:
        first.step(ROW, emitted([wrote]), NONE, np.array([blank]))
    second.restore(2, first.snapshot(0))
    for wrote, blank in after:
        heard = emitted([wrote]), NONE, np.array([blank])
        assert first.step(ROW, *heard) == second.step(ROW + 2, *heard)


def test_a_row_that_is_reset_has_heard_nothing() -> None:
    one = endpointer(1, Rule(silence=0.08))
    one.step(ROW, emitted([True]), NONE, np.array([False]))
    one.reset(ROW, [(Rule(silence=0.08),)])
    assert not any(one.step(ROW, emitted([False]), NONE, np.array([True]))[0] for _ in range(9))


@pytest.mark.parametrize("times", [{}, {"silence": -1.0}, {"blank": float("nan")}, {"quiet": -1.0}])
def test_a_rule_that_says_nothing_is_refused(times: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="expected seconds, at least one above 0, got Rule"):
        Rule(**times)


@pytest.mark.parametrize(("seconds", "steps"), [(0.3, 8), (0.31, 8), (0.8, 20), (3.0, 75)])
def test_an_utterance_may_end_after_another_silence(seconds: float, steps: int) -> None:
    by_blanks = rules_after(seconds, has_detector=False)
    assert ends([WROTE] + [SILENT] * 200, *by_blanks) == [steps]
    by_quiet = rules_after(seconds, has_detector=True)
    assert ends([WROTE] + [SILENT] * 200, *by_quiet, by_quiet=True) == [steps]


def test_a_busy_head_ends_no_utterance_before_two_seconds_or_the_silence_asked_for() -> None:
    assert ends([WROTE] + [BUSY] * 200, *rules_after(0.3, has_detector=False)) == [50]
    assert ends([WROTE] + [BUSY] * 200, *rules_after(4.0, has_detector=False)) == [100]


def test_there_are_few_rules_whatever_clients_ask_for() -> None:
    asked = {rules_after(ms / 1000, has_detector=False) for ms in range(300, 5001)}
    assert len(asked) < 130


@pytest.mark.parametrize("seconds", [0.2, -1.0, float("inf"), float("nan")])
def test_a_silence_shorter_than_a_letter_or_without_end_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="of silence, got"):
        rules_after(seconds, has_detector=False)
