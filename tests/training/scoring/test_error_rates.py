"""Edits and error rates against jiwer's own, against counts by hand, and their intervals."""

import jiwer
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cortado.training.data.corpora.folder import NOBODY
from cortado.training.scoring.edits import Unit, count, edits, errors, tokens
from cortado.training.scoring.error_rates import (
    bootstrap_interval,
    is_loop,
    rate,
    score,
)

sentences = st.lists(st.text("ab'", min_size=1, max_size=3), max_size=8).map(" ".join)


@pytest.mark.parametrize(
    ("said", "heard", "unit", "counted"),
    [
        ("the cat sat down", "the hat sat", "word", (1, 1, 0, 4)),
        ("the cat", "oh the the cat", "word", (0, 0, 2, 2)),
        ("cat", "hats", "char", (1, 0, 1, 3)),
        ("a cat", "acat", "char", (0, 1, 0, 5)),
        ("the cat", "", "word", (0, 2, 0, 2)),
        ("the", "", "char", (0, 3, 0, 3)),
        ("", "the cat", "word", (0, 0, 2, 0)),
        ("", "the", "char", (0, 0, 3, 0)),
        ("", "", "word", (0, 0, 0, 0)),
        ("the\tcat\u00a0sat", "the cat sat", "word", (0, 0, 0, 3)),
    ],
)
def test_edits_are_counted_as_by_hand(
    said: str, heard: str, unit: Unit, counted: tuple[int, ...]
) -> None:
    assert errors(said, heard, unit) == counted


def test_words_heard_in_silence_are_insertions() -> None:
    result = score([("", "the cat"), ("a b c d", "a b c d")], ["x", "y"])
    assert (result.wer, result.insertions) == (0.5, 2)


def test_a_set_without_any_reference_counts_its_insertions() -> None:
    assert rate(0, 0) == 0
    assert score([("", "")], ["x"]).wer == 0
    assert score([("", "a b")], ["x"]).wer == jiwer.wer([""], ["a b"]) == 2


@given(sentences, sentences, st.sampled_from(["word", "char", "phone"]))
@settings(max_examples=100)
def test_edits_are_as_many_as_jiwers_and_spell_both_texts(
    reference: str, hypothesis: str, unit: Unit
) -> None:
    found = edits(reference, hypothesis, unit)
    process = jiwer.process_characters if unit == "char" else jiwer.process_words
    output = process(reference, hypothesis)
    counted = count(found)
    assert counted[:3] == (output.substitutions, output.deletions, output.insertions)
    assert counted.length == len(tokens(reference, unit))
    said = [edit.reference for edit in found if edit.reference is not None]
    heard = [edit.hypothesis for edit in found if edit.hypothesis is not None]
    assert (said, heard) == (tokens(reference, unit), tokens(hypothesis, unit))


@given(st.lists(st.tuples(sentences, sentences), min_size=1, max_size=12))
@settings(max_examples=25)
def test_rates_and_counts_are_jiwers_and_intervals_repeatable(
    pairs: list[tuple[str, str]],
) -> None:
    speakers = [f"speaker {index % 3}" for index in range(len(pairs))]
    result = score(pairs, speakers)
    references, hypotheses = (list(texts) for texts in zip(*pairs, strict=True))
    words = jiwer.process_words(references, hypotheses)
    assert result.wer == pytest.approx(words.wer)
    assert result.substitutions == words.substitutions
    assert result.deletions == words.deletions
    assert result.insertions == words.insertions
    assert result.cer == pytest.approx(jiwer.cer(references, hypotheses))
    assert (result.wer_ci95 is None) == (len(pairs) == 1)
    low, high = result.wer_ci95 or (0, 0)
    assert 0 <= low <= high
    assert result == score(pairs, speakers)


def test_an_interval_narrows_to_the_normal_approximation() -> None:
    random = np.random.default_rng(0)
    counts = random.binomial(20, 0.3, size=500)
    lengths = np.full(500, 20)
    found = bootstrap_interval(counts, lengths, [str(index) for index in range(500)])
    assert found
    low, high = found
    spread = 1.96 * counts.std() / 20 / np.sqrt(500)
    mean = counts.mean() / 20
    assert low == pytest.approx(mean - spread, abs=0.1 * spread)
    assert high == pytest.approx(mean + spread, abs=0.1 * spread)


def test_speakers_are_drawn_whole_and_a_single_one_by_utterance() -> None:
    counts, lengths = np.array([0, 5] * 50), np.full(100, 5)
    by_speaker = bootstrap_interval(counts, lengths, ["good", "bad"] * 50)
    assert by_speaker
    assert by_speaker[0] < 0 < 1 < by_speaker[1]  # two voices may both be good or both be bad
    unknown = ["one"] * 2 + [*NOBODY] * 49  # each is somebody else
    for speakers in ([str(index) for index in range(100)], ["one"] * 100, unknown):
        found = bootstrap_interval(counts, lengths, speakers)
        assert found
        low, high = found
        assert 0.35 < low < high < 0.65


@pytest.mark.parametrize("speakers", [2, 20])
def test_two_equal_systems_differ_significantly_in_about_5_of_100_sets(speakers: int) -> None:
    random = np.random.default_rng(0)
    voices, lengths = [str(k % speakers) for k in range(100)], np.full(100, 20)
    missed = 0
    for _ in range(200):
        difference = random.normal(0, 40, speakers)[np.arange(100) % speakers].round()
        found = bootstrap_interval(difference.astype(np.int64), lengths, voices)
        assert found
        missed += not found[0] <= 0 <= found[1]
    assert missed / 200 == pytest.approx(0.05, abs=0.03)  # 2 standard errors of 200 sets


def test_one_utterance_has_no_interval_and_no_rate_is_below_0() -> None:
    assert bootstrap_interval(np.array([1]), np.array([4]), ["one"]) is None
    assert score([("a b c d", "a b c x")], ["one"]).wer_ci95 is None
    found = score([("a b", "a x"), ("a b", "a b")], ["one", "other"]).wer_ci95
    assert found
    assert found[0] == 0.0 < 1.0 < found[1]  # of two speakers little is known


def test_a_long_hypothesis_is_a_loop_from_two_characters_on() -> None:
    assert not is_loop("a" * 10, "a" * 13)
    assert is_loop("a" * 10, "a" * 14)
    assert not is_loop("no", "noo")  # half as long again, by one character
    assert is_loop("no", "nooo")
    assert is_loop("", "no")
    assert not is_loop("", "o")
    assert not is_loop("a" * 10, "a" * 13 + " ")  # the space that ends a word is no character more
    assert score([("no", "no no no"), ("yes", "yes")], ["x", "y"]).loops == 1


def test_speakers_must_match_pairs() -> None:
    with pytest.raises(ValueError, match="got 1 pairs and 2 speakers"):
        score([("a", "a")], ["x", "y"])
    with pytest.raises(ValueError, match="got 0 pairs"):
        score([], [])
