"""Pronunciations are those of the real espeak-ng, one for each word whatever the word is."""

import json
from pathlib import Path

import pytest

from cortado.tests import needs
from cortado.training.data import pronounce
from cortado.training.data.pronounce import PHONES, PronunciationError, lexicon, pronounced


@needs.espeak
def test_words_are_pronounced_without_stress_and_length() -> None:
    found = [" ".join(phones) for phones in pronounced(["hello", "three", "it's", "boys'", "a"])]
    assert found == ["h ə l oʊ", "θ ɹ i", "ɪ t s", "b ɔɪ z", "ə"]


@needs.espeak
def test_each_word_keeps_its_own_pronunciation_among_odd_ones() -> None:
    long = "pneumonoultramicroscopicsilicovolcanoconiosis" * 20
    odd = ["1920", "'", "''", "o'clock", "mr", "www", "12345678901234567890", "-", "?", "a.b", long]
    words = [word for one in odd for word in (one, "cat")]
    found = pronounced(words)
    assert len(found) == len(words)
    assert all(phones == ["k", "æ", "t"] for phones in found[1::2])
    by_word = dict(zip(odd, found[::2], strict=True))
    assert by_word["'"] == by_word["''"] == by_word["-"] == []
    assert " ".join(by_word["o'clock"]) == "ə k l ɑ k"
    assert " ".join(by_word["1920"]).startswith("n aɪ n t i n")


@needs.espeak
def test_a_wrong_number_of_lines_is_asked_again_in_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = pronounce._run_espeak
    calls = []

    def joined(text: str) -> str:  # as if it ran two paragraphs into one where "of" is among them
        calls.append(text)
        answer = asked(text)
        return answer.replace("\n", " ", 1) if "of\n" in text and text != "of\n\n" else answer

    monkeypatch.setattr(pronounce, "_run_espeak", joined)
    words = ["out", "of", "the", "box", "at", "last"]
    found = [" ".join(phones) for phones in pronounced(words)]
    assert found == ["aʊ t", "ʌ v", "ð ə", "b ɑ k s", "æ t", "l æ s t"]
    assert len(calls) > 1


@needs.espeak
def test_the_lexicon_is_kept_and_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cache" / "words.json"
    told: list[tuple[int, int]] = []
    first = lexicon(["the cat", "the '"], path, lambda *what: told.append(what))
    assert told == [(3, 3)]
    assert [PHONES[k] for word in ("the", "cat") for k in first[word]] == [*"ðəkæt"]
    assert first["'"] == []
    asked: list[str] = []
    answer = pronounce._run_espeak

    def noting(text: str) -> str:
        asked.append(text)
        return answer(text)

    monkeypatch.setattr(pronounce, "_run_espeak", noting)
    again = lexicon(["the cat sat", "the '"], path)
    assert asked == ["sat\n\n"]
    assert again.items() >= first.items()
    assert set(json.loads(path.read_text())) == {"the", "cat", "sat", "'"}
    assert lexicon(["cat"], path) == {"cat": again["cat"]}
    assert len(asked) == 1


def test_a_phone_that_is_not_english_makes_no_pronunciation() -> None:
    assert pronounce._phones("ɬ_æ_n_ˈoʊ_z") == []
    assert pronounce._phones("b_ˈæ_ʔ_n̩_d ˈɔːɹ_ɡ_əl") == [*"bætəndɔɹɡəl"]
    assert all(set(phones.split()) <= set(PHONES) for phones in pronounce.FOLDED.values())


def test_without_espeak_the_error_names_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PronunciationError, match="install the package espeak-ng"):
        pronounced(["cat"])


def test_a_broken_file_of_pronunciations_is_named_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / "pronunciations.json"
    path.write_text('{\n"cat": ["k" "æ"]}', encoding="utf-8")
    with pytest.raises(ValueError, match=r"pronunciations\.json: expected JSON, got .* line 2"):
        lexicon(["cat"], path)
