"""Errors over a day: what has grown and what follows a stretch is told from what scatters."""

import numpy as np
import pytest

from cortado.clients.bench.endless.recovery import Scored, Tenth, differ, recoveries, tenths

EACH = 12  # recordings in a round
WORDS = 10


def heard(
    rounds: int, more: int = 0, behind: int = 0, kinds: tuple[str, ...] = ("music", "noise")
) -> list[Scored]:
    """Rounds of recordings with 2 or 3 errors each, those of recording k k more.

    Args:
        rounds: how many.
        more: errors in each recording of the last tenth of the rounds.
        behind: errors in each recording behind a stretch of the first kind.
        kinds: of stretches, in turn before every sixth recording.
    """
    random, found = np.random.default_rng(0), list[Scored]()
    for number in range(rounds):
        for recording in random.permutation(EACH).tolist():
            block, inside = divmod(len(found), 6)
            kind = "" if inside or not block else kinds[block % len(kinds)]
            errors = int(random.integers(2, 4)) + recording
            errors += more if number >= rounds - max(1, rounds // 10) else 0
            errors += behind if kind == kinds[0] else 0
            found.append(Scored(recording, kind, errors, WORDS))
    return found


def test_the_first_and_the_last_tenth_are_whole_rounds_and_at_least_one() -> None:
    assert [one.rounds for one in tenths(heard(30), EACH)] == [3, 3]
    assert [one.rounds for one in tenths(heard(4), EACH)] == [1, 1]
    day = heard(20)
    first, last = tenths([*day, Scored(0, "", 1_000, WORDS)], EACH)  # of a round that was cut off
    assert (first, last) == tenths(day, EACH)
    assert first.wer == sum(one.errors for one in day[: 2 * EACH]) / (2 * EACH * WORDS)
    assert last.wer == sum(one.errors for one in day[-2 * EACH :]) / (2 * EACH * WORDS)


def test_the_standard_error_is_that_of_a_mean_of_rounds() -> None:
    day = heard(40)
    rounds = [day[k : k + EACH] for k in range(0, len(day), EACH)]
    rates = [sum(one.errors for one in some) / (EACH * WORDS) for some in rounds]
    first, last = tenths(day, EACH)
    assert first.error == last.error == pytest.approx(np.std(rates, ddof=1) / np.sqrt(4))


@pytest.mark.parametrize(("more", "expected"), [(0, False), (1, True)])
def test_what_has_grown_is_told_from_what_scatters(more: int, expected: bool) -> None:
    assert differ(*tenths(heard(50, more), EACH)) is expected


def test_one_round_has_no_standard_error() -> None:
    for day in (heard(1), heard(1)[:5]):
        first, last = tenths(day, EACH)
        assert first == last
        assert first.error is None
        assert differ(first, last) is None
    assert differ(Tenth(1, 0.5, 0.1), Tenth(1, 0.8, 0.1)) is True


@pytest.mark.parametrize("behind", [0, 3])
def test_what_follows_a_stretch_is_held_against_the_same_recordings(behind: int) -> None:
    found = recoveries(heard(50, behind=behind))
    assert set(found) == {"music", "noise"}
    assert found["music"].differs is (behind > 0)
    assert found["noise"].differs is False
    for kind, more in (("music", behind), ("noise", 0)):
        one = found[kind]
        assert one.error is not None
        assert one.error < 0.02
        assert one.wer - one.after_speech == pytest.approx(more / WORDS, abs=3 * one.error)


def test_a_recording_that_is_always_behind_a_stretch_tells_nothing() -> None:
    day = [Scored(0, "music", 9, WORDS), Scored(1, "", 3, WORDS)]
    assert recoveries(day) == {}
    [one] = recoveries([*day, Scored(1, "music", 4, WORDS)]).values()
    assert (one.recordings, one.wer, one.after_speech, one.error) == (1, 0.4, 0.3, None)
    assert one.differs is None
