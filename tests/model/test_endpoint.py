"""Where utterances end, by rules on what was written and heard."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cortado.model.attention import AttentionConfig
from cortado.model.backends.reference import Character
from cortado.model.config import DecoderConfig, EncoderConfig, RecognizerConfig
from cortado.model.streaming.endpoint import (
    BLANK,
    LANES,
    QUIET_RULES,
    RULES,
    Endpointer,
    Head,
    Rule,
    blanks,
    head,
)
from cortado.model.streaming.utterances import Endpoint, Utterances
from cortado.tests.model.untrained import untrained

CAP = 2
TINY = RecognizerConfig(
    encoder=EncoderConfig(channels=4, width=16, layers=1),
    decoder=DecoderConfig(width=16, embedding=8, attention=AttentionConfig(width=8)),
)
ROW = np.zeros(1, np.int64)

Steps = list[tuple[bool, bool]]  # whether a character was written, whether the head heard none

steps = st.lists(st.tuples(st.booleans(), st.booleans()), max_size=60)


def symbols(wrote: list[bool]) -> NDArray[np.int32]:
    return np.array([[3, -1] if each else [-1] * CAP for each in wrote], np.int32)


def ends(heard: Steps, *rules: Rule) -> list[int]:
    """Return the steps, from 0 on, after which an utterance of one stream ends."""
    one = Endpointer(1, rules or RULES)
    return [
        step
        for step, (wrote, blank) in enumerate(heard)
        if one.step(ROW, symbols([wrote]), np.array([blank]))[0]
    ]


WROTE, SILENT, BUSY = (True, False), (False, True), (False, False)


def test_an_utterance_ends_where_its_silence_is_long_enough() -> None:
    assert ends([WROTE] + [SILENT] * 9, Rule(silence=0.2)) == [5]


def test_before_its_first_character_no_utterance_ends() -> None:
    assert ends([SILENT] * 500) == []


def test_an_utterance_ends_once() -> None:
    assert ends([WROTE] + [SILENT] * 500) == [20]


def test_blanks_have_to_last() -> None:
    rule = Rule(silence=0.08, blank=0.2)
    assert ends([WROTE, BUSY, *[SILENT] * 9], rule) == [6]
    assert ends([WROTE, *[SILENT] * 4, BUSY, *[SILENT] * 9], rule) == [10]


def test_blanks_before_an_utterance_do_not_end_it() -> None:
    early = [SILENT] * 100 + [(True, True)] + [SILENT] * 9  # before the head hears it
    assert ends(early, Rule(silence=0.04, blank=0.2)) == [105]
    assert ends(early) == []


def quiet_ends(heard: list[tuple[bool, bool]], *rules: Rule) -> list[int]:
    """Return the steps that end utterances, each of whether it wrote and whether it was quiet."""
    one = Endpointer(1, rules)
    none = np.array([False])
    return [
        step
        for step, (wrote, quiet) in enumerate(heard)
        if one.step(ROW, symbols([wrote]), none, np.array([quiet]))[0]
    ]


def test_quiet_has_to_last_and_to_follow_a_character() -> None:
    rule = Rule(silence=0.08, quiet=0.2)
    assert quiet_ends([(False, True)] * 50 + [(True, True)] + [(False, True)] * 9, rule) == [55]
    loud = [(True, False), *[(False, True)] * 4, (False, False), *[(False, True)] * 9]
    assert quiet_ends(loud, rule) == [10]


def test_without_a_detector_nothing_is_quiet() -> None:
    assert ends([WROTE] + [SILENT] * 500, Rule(quiet=0.04), Rule(length=0.4)) == [10]


def test_with_a_detector_the_loop_and_the_long_rules_stay() -> None:
    assert {rule.times for rule in QUIET_RULES if not rule.quiet} < {rule.times for rule in RULES}
    assert quiet_ends([(True, False)] * 5000, *QUIET_RULES) != []
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
@settings(deadline=None)
def test_streams_do_not_feel_each_other(streams: list[Steps]) -> None:
    rules = Rule(silence=0.12, blank=0.08), Rule(silence=0.2), Rule(length=0.8)
    many = Endpointer(len(streams), rules)
    found: list[list[int]] = [[] for _ in streams]
    for step in range(max(map(len, streams))):
        rows = np.array([row for row, heard in enumerate(streams) if step < len(heard)])
        wrote, blank = zip(*(streams[row][step] for row in rows), strict=True)
        for row in rows[many.step(rows, symbols(list(wrote)), np.array(blank))]:
            found[row].append(step)
    assert found == [ends(heard, *rules) for heard in streams]


@given(before=steps, after=steps)
@settings(deadline=None)
def test_a_stream_that_is_resumed_ends_where_it_would_have(before: Steps, after: Steps) -> None:
    rules = Rule(silence=0.12, blank=0.08), Rule(length=0.4)
    first, second = Endpointer(1, rules), Endpointer(3, rules)
    for wrote, blank in before:
        first.step(ROW, symbols([wrote]), np.array([blank]))
    second.resume(2, first.suspend(0))
    for wrote, blank in after:
        heard = symbols([wrote]), np.array([blank])
        assert first.step(ROW, *heard) == second.step(ROW + 2, *heard)


def test_a_row_that_is_reset_has_heard_nothing() -> None:
    one = Endpointer(1, (Rule(silence=0.08),))
    one.step(ROW, symbols([True]), np.array([False]))
    one.reset(ROW)
    assert not any(one.step(ROW, symbols([False]), np.array([True]))[0] for _ in range(9))


@pytest.mark.parametrize("times", [{}, {"silence": -1.0}, {"blank": float("nan")}, {"quiet": -1.0}])
def test_a_rule_that_says_nothing_is_refused(times: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="expected seconds, at least one above 0, got Rule"):
        Rule(**times)


@pytest.mark.parametrize("streams", [1, 7, 40])
def test_blanks_are_those_of_the_softmax(streams: int) -> None:
    random = np.random.default_rng(streams)
    frames = random.normal(size=(streams, 16)).astype(np.float32)
    head = Head(*(random.normal(size=s).astype(np.float32) for s in ((16, 5), 5)))
    logits = frames.astype(np.float64) @ head.weight + head.bias
    exact = np.exp(logits[:, 0]) / np.exp(logits).sum(1)
    sure = abs(exact - BLANK) > 1e-5
    assert (blanks(frames, head) == (exact >= BLANK))[sure].all()


def test_the_blanks_of_a_frame_are_the_same_in_a_batch_of_any_size() -> None:
    frames = np.zeros((33, 4), np.float32)
    head = Head(np.zeros((4, 3), np.float32), np.full(3, 0.1, np.float32))
    assert not blanks(frames, head).any()  # a third each
    assert blanks(frames, head._replace(bias=np.array([800, 0, -np.inf], np.float32))).all()


def test_the_head_is_that_of_the_recogniser() -> None:
    recognizer = untrained(TINY).recognizer
    recognizer.ctc.weight *= 10
    recognizer.ctc.bias[-1] += 6
    frames = torch.randn(50, TINY.encoder.width, generator=torch.Generator().manual_seed(0))
    exact = recognizer.ctc(frames).softmax(1)[:, -1].numpy()
    assert 0 < (exact >= BLANK).sum() < len(frames)
    found = head(recognizer)
    assert len(found.bias) % LANES == 0
    assert np.array_equal(blanks(frames.numpy(), found), exact >= BLANK)


def said(text: str, time: float) -> list[Character]:
    return [Character(each, time) for each in text]


def test_an_utterance_has_the_times_of_its_first_and_last_characters() -> None:
    one = Utterances(spaced=True)
    assert one.hear(said("a", 1.0), False) == (said("a", 1.0), None)
    assert one.hear(said("bc", 2.0), False)[1] is None
    assert one.hear([], True) == ([], Endpoint(0, 1.0, 2.0))
    assert one.hear([], True) == ([], None)
    one.hear(said("b", 5.0), False)
    assert one.hear(said("c", 5.5), True)[1] == Endpoint(1, 5.0, 5.5)


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [("a", "b", " b"), ("a", " b", " b"), ("a ", "b", "b"), ("a", "", "")],
)
def test_words_of_two_utterances_are_parted(first: str, second: str, told: str) -> None:
    one = Utterances(spaced=True)
    one.hear(said(first, 1.0), True)
    assert one.hear(said(second, 2.0), False)[0] == said(told, 2.0)


def test_a_vocabulary_without_a_space_gets_none() -> None:
    one = Utterances(spaced=False)
    one.hear(said("a", 1.0), True)
    assert one.hear(said("b", 2.0), False)[0] == said("b", 2.0)


def test_a_stream_begins_without_a_space() -> None:
    assert Utterances(spaced=True).hear(said("b", 2.0), False)[0] == said("b", 2.0)


def test_utterances_that_are_resumed_go_on() -> None:
    one, other = Utterances(spaced=True), Utterances(spaced=True)
    one.hear(said("a", 1.0), True)
    one.hear(said("b", 2.0), False)
    other.resume(one.suspend())
    assert other.hear(said("b", 3.0), True) == one.hear(said("b", 3.0), True)
    assert other.hear(said("b", 4.0), False) == one.hear(said("b", 4.0), False)
