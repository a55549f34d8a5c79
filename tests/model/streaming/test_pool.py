"""Streams of a pool: what their steps give, each for itself, and snapshots."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cortado.model.emission import Character, Emission
from cortado.model.features.framing import SAMPLES_PER_STEP as STEP
from cortado.model.search.phrases import Expected, expecting
from cortado.model.search.pronunciation import HISTORY
from cortado.model.search.settings import DEFAULT_BEAM
from cortado.model.streaming.alternatives import COVERED
from cortado.model.streaming.endpoint import WAIT, Rule
from cortado.model.streaming.options import StreamOptions
from cortado.model.streaming.pool import Pool
from cortado.model.streaming.snapshot import Snapshot, SnapshotError
from cortado.model.streaming.update import Update
from cortado.model.streaming.utterances import Endpoint
from cortado.model.vocabulary import Vocabulary
from cortado.tests.model.search.words import PHONES, said
from cortado.tests.model.streaming.scripted import Script, Scripted, ScriptedStepper

A, B, SPACE = (Emission(Vocabulary().names.index(letter)) for letter in "ab ")
RULES = (Rule(silence=0.08),)


def audio(*values: int) -> NDArray[np.float32]:
    """A step of audio for each value."""
    return np.repeat(np.array(values, np.float32), STEP)


def heard(pool: Pool, *values: int, row: int = 0) -> list[Update]:
    """Push steps into a row; return its updates."""
    pool.push(row, audio(*values))
    found = []
    while len(pool.ready()):
        found += [update for other, update in pool.advance() if other == row]
    return found


def pool(
    script: Script,
    rest: list[Emission] | None = None,
    streams: int = 1,
    waits: Mapping[int, int] | None = None,
) -> Pool:
    found = Pool(Scripted(script, rest, waits), streams, rules=RULES)
    for row in range(streams):
        assert found.open() == row
    return found


def test_a_character_has_the_end_of_the_frame_where_it_was_heard() -> None:
    one = pool({1: [A, B], 2: [B._replace(late=2)]})
    updates = heard(one, 0, 0, 0, 0, 1, 2)
    assert [list(update.characters) for update in updates] == [
        [Character("a", 0.08), Character("b", 0.08)],
        [Character("b", 0.04, 0.08)],
    ]
    assert [round(update.position, 3) for update in updates] == [0.2, 0.24]
    assert not any(update.finished for update in updates)


def test_an_utterance_ends_after_what_was_not_committed_and_the_next_begins_a_word() -> None:
    one = pool({1: [A], 2: [SPACE, B]}, rest=[B])
    first, ending, second, _ = heard(one, 1, 0, 0, 1, 0, 0)
    assert "".join(each.text for each in first.characters) == "a"
    assert [each.text for each in ending.characters] == ["b"]
    assert ending.endpoint == Endpoint(0, 0.0, 0.0)
    assert [each.text for each in second.characters] == [" ", "a"]
    assert [each.text for each in heard(one, 2)[0].characters] == [" ", "b"]  # its own space


def test_no_utterance_ends_while_its_next_letter_awaits_its_commit() -> None:
    one = pool({1: [A._replace(late=9)]}, waits={1: 0, 2: 1})
    assert [update.endpoint for update in heard(one, 1, 2, 2, 2)] == [None]
    [ending] = heard(one, 0)
    assert ending.endpoint == Endpoint(0, 0.0, 0.0)


def test_an_utterance_that_waits_in_a_pause_begins_anew() -> None:
    one = pool({1: [A]}, waits={2: 0})
    stepper = one.stepper
    assert isinstance(stepper, ScriptedStepper)
    heard(one, *[0] * WAIT, 2, *[0] * (WAIT - 1), 1, *[0] * (2 * WAIT + 2))
    # not while a letter waits, nor within the utterance, which ends two steps behind its letter
    end = 2 * WAIT + 3
    assert stepper.restarted == [(0, WAIT), (0, end), (0, end + WAIT), (0, end + 2 * WAIT)]
    stepper.owner.pauses = False
    heard(one, *[0] * (2 * WAIT))
    assert len(stepper.restarted) == 4


def test_a_stream_tells_whether_a_heard_letter_awaits_its_commit() -> None:
    one = pool({1: [A]}, waits={1: 0, 2: 1})
    told = []
    for value in (0, 2, 2, 1):
        heard(one, value)
        told += one.await_commit(np.array([0]))
    assert told == [False, True, True, True]
    one.close(0)
    assert one.open() == 0
    assert one.await_commit(np.array([0])) == [False]  # nothing of the stream before it


def test_each_stream_goes_on_with_its_own_utterance_and_position() -> None:
    many = pool({1: [A]}, streams=2)
    many.push(0, audio(1, 0, 0))
    [update] = heard(many, 1, row=1)
    assert (update.endpoint, update.position) == (None, 0.04)
    assert many.position(0) == pytest.approx(0.12)


def test_a_stream_is_finished_with_the_last_step_of_its_flush() -> None:
    one = pool({})
    one.push(0, audio(0)[:10])
    one.end(0)
    steps = []
    while len(one.ready()):
        steps.append([update for _, update in one.advance()])
    assert [len(each) for each in steps] == [0, 0, 1]  # nothing to say until then
    assert steps[-1][0].finished
    assert steps[-1][0].position == 10 / 16_000


def rest(pool: Pool) -> list[Update]:
    """End the input of row 0; return its updates."""
    pool.end(0)
    found = list[Update]()
    while len(pool.ready()):
        found += [update for _, update in pool.advance()]
    return found


def test_for_people_what_is_heard_in_the_silence_behind_the_input_has_the_time_of_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Scripted, "delay_steps", 0)
    one = pool({1: [A], 0: [B, B._replace(late=1)]})
    heard(one, 1)
    one.push(0, audio(1)[:10])
    characters = [each for update in rest(one) for each in update.within_input().characters]
    end = round((STEP + 10) / 16_000, 3)
    assert [(each.text, each.time) for each in characters] == [("a", end), *[("b", end)] * 4]
    # when each was committed, by the clock of the steps
    committed = [round(each.time + each.late, 3) for each in characters]
    assert committed == [0.08, 0.12, 0.12, 0.16, 0.16]


@pytest.mark.parametrize(("silent", "ends"), [(1, 0), (2, 1)])
def test_the_silence_behind_the_input_ends_no_utterance(silent: int, ends: int) -> None:
    one = pool({1: [A]})  # by a rule of two steps
    updates = [*heard(one, 1, *[0] * silent), *rest(one)]
    assert sum(update.endpoint is not None for update in updates) == ends
    assert updates[-1].finished


def test_what_is_under_way_of_a_row_that_changes_hands_is_dropped() -> None:
    many = pool({1: [A]}, streams=2)
    for row in range(2):
        many.push(row, audio(1))
    batch = many.take(many.ready())
    output = many.step(batch)
    many.close(0)
    assert many.open() == 0
    assert [row for row, _ in many.updates(many.settle(batch, output))] == [1]
    [update] = heard(many, 1)  # the new stream begins at the beginning
    assert update.characters == [Character("a", 0.0)]
    assert many.drop(many.take(np.array([], np.int64))).tolist() == []


def test_a_snapshot_goes_on_in_another_row_of_another_pool() -> None:
    script = {1: [A], 2: [B]}
    one, other = pool(script, streams=3), pool(script, streams=3)
    heard(one, 1, 0, 0, 2, row=2)
    one.push(2, audio(0)[:100])
    data = one.snapshot(2).to_bytes()
    snapshot = Snapshot.from_bytes(data)
    assert (snapshot.characters, snapshot.received, snapshot.rules) == (3, 2660, RULES)
    assert snapshot.position == one.position(2)
    other.close(1)
    assert other.open(snapshot=snapshot) == 1
    assert other.snapshot(1).to_bytes() == data  # before its first step there, too
    rest = (0, 0, 1)
    assert heard(one, *rest, row=2) == heard(other, *rest, row=1) != []
    assert one.snapshot(2).to_bytes() == other.snapshot(1).to_bytes()


def test_a_stream_keeps_the_rules_that_it_began_with() -> None:
    one, other = pool({1: [A]}), Pool(Scripted({1: [A]}), 2, rules=())
    heard(one, 1)
    row = other.open(snapshot=one.snapshot(0))
    assert heard(other, 0, 0, row=row)[-1].endpoint == Endpoint(0, 0.0, 0.0)
    assert other.snapshot(row).rules == RULES
    assert other.snapshot(other.open()).rules == ()
    whole = pool({1: [A]})
    whole.close(0)
    row = whole.open(StreamOptions(endpoints=False))
    assert not any(each.endpoint for each in heard(whole, 1, 0, 0, 0, row=row))


def test_a_stream_of_another_recogniser_is_refused() -> None:
    one, other = pool({}), Scripted({})
    for name, value, wanted in (
        ("name", "other", "expected a stream of the backend other, got scripted"),
        ("digest", bytes([1] * 16), "expected a stream of the model 0101"),
    ):
        other = Scripted({})
        setattr(other, name, value)
        with pytest.raises(SnapshotError, match=wanted):
            Pool(other, 1).open(snapshot=one.snapshot(0))


def test_rules_with_quiet_need_a_detector() -> None:
    with pytest.raises(ValueError, match="expected a voice activity detector"):
        Pool(Scripted({}), 1, rules=(Rule(quiet=0.5),))


class Hearing(Scripted):
    """It says words of a lexicon, whose phones it hears in noise."""

    beam = DEFAULT_BEAM._replace(width=2, words=said(pronounced=True), phones=0.5)

    def stepper(self, streams: int, threads: int | None = None) -> "HearingStepper":
        return HearingStepper(self, streams)


class HearingStepper(ScriptedStepper):
    """What it hears depends on the steps that a stream has taken."""

    def spoken(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        found = [
            np.random.default_rng(int(count)).normal(-3, 1, (HISTORY, PHONES))
            for count in self.steps[rows]
        ]
        return np.array(found, np.float32)


def hearing(streams: int = 1) -> Pool:
    return Pool(Hearing({1: [A], 2: [SPACE, B], 3: [B, SPACE]}), streams, rules=RULES)


def placed(updates: list[Update]) -> list[tuple[str, list[int]]]:
    """Return the text of each update, and where words with alternatives end in it."""
    return [
        ("".join(one.text for one in each.characters), [at.end for at in each.alternatives])
        for each in updates
    ]


def test_alternatives_come_with_the_end_of_their_word() -> None:
    one = hearing()
    assert one.open(StreamOptions(alternatives=3)) == 0
    found = heard(one, 1, 1, 2, 3, 1)
    assert placed(found) == [("a", []), ("a", []), (" b", [0]), ("b ", [1]), ("a", [])]
    for update in found:
        for place in update.alternatives:
            shares = [other.share for other in place.alternatives]
            assert len(shares) == 3
            assert shares == sorted(shares, reverse=True)
            assert sum(shares) <= COVERED
            assert all(other.text.isalpha() for other in place.alternatives)
    ending = heard(one, 0, 0)[-1]  # the utterance ends within its last word
    assert ending.endpoint
    assert placed([ending]) == [("", [0])]
    following = heard(one, 2)[0]  # whose space comes before its first letter
    assert placed([following]) == [(" b", [])]
    assert sum(len(update.alternatives) for update in rest(one)) == 1


def test_a_stream_asks_for_alternatives_itself_and_goes_on_with_them_elsewhere() -> None:
    two = hearing(2)
    assert (two.open(StreamOptions(alternatives=2)), two.open()) == (0, 1)
    heard(two, 1, 1)
    two.push(1, audio(1, 1, 2))
    assert not any(update.alternatives for _, update in two.advance())
    snapshot = Snapshot.from_bytes(two.snapshot(0).to_bytes())
    assert snapshot.most_alternatives == 2
    other = hearing()
    assert other.open(snapshot=snapshot) == 0
    here, there = heard(two, 2, 3), heard(other, 2, 3)
    assert [each.alternatives for each in here] == [each.alternatives for each in there]
    assert [len(at.alternatives) for each in here for at in each.alternatives] == [2, 2]


def test_a_search_without_pronunciations_has_no_alternatives() -> None:
    one = pool({1: [A], 2: [SPACE]})
    one.close(0)
    assert one.open(StreamOptions(alternatives=3)) == 0
    assert not any(update.alternatives for update in heard(one, 1, 2, 0, 0))


def test_words_of_an_older_language_model_may_be_expected_too() -> None:
    recogniser = Scripted({})
    older = said(pronounced=True)._replace(taken=np.zeros(0, np.uint8))
    recogniser.beam = DEFAULT_BEAM._replace(words=older, phones=0.5)
    assert Pool(recogniser, 1).open(StreamOptions(phrases=["ada lovelace"])) == 0


def test_phrases_are_pronounced_once_however_often_they_are_expected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Sequence[str]] = []

    def counted(phrases: Sequence[str], *others: Any) -> Expected:
        asked.append(phrases)
        return expecting(phrases, *others)

    monkeypatch.setattr("cortado.model.streaming.pool.expecting", counted)
    recogniser = Scripted({})
    recogniser.beam = DEFAULT_BEAM
    one = Pool(recogniser, 1)
    for _ in range(3):  # as a stream does that is flushed
        assert one.open(StreamOptions(phrases=["ada lovelace"])) == 0
        one.close(0)
    assert asked == [("ada lovelace",)]
