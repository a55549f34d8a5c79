"""Normalisations of texts before they are compared."""

import pytest

from cortado.training.scoring.normalise import NAMES, normaliser


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It's a <noise> test.", "it's a test"),
        ("[laughter] Well -- {breath} no!", "well no"),
        ("‘quoted’ o’clock", "quoted o'clock"),
        ("semi-final, 3_4", "semi final 3 4"),
        ("it´s o′clock", "it's o'clock"),
        ("", ""),
    ],
)
def test_the_corpus_s_normalisation_leaves_words(text: str, expected: str) -> None:
    assert normaliser("corpus").apply(text) == expected


def test_none_changes_nothing_but_the_case() -> None:
    assert normaliser("none").apply("It's  a-b <c>") == "it's  a-b <c>"


def test_whisper_s_spells_numbers_and_contractions_out() -> None:
    pytest.importorskip("whisper_normalizer")
    assert normaliser("whisper").apply("It's Twenty-one, mm, colour!") == "it is 21 color"


@pytest.mark.parametrize("name", ["none", "corpus"])
def test_each_says_what_it_does(name: str) -> None:
    assert normaliser(name).description.startswith(f"{name}: ")
    assert name in NAMES


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a normalisation among none, corpus, whisper"):
        normaliser("kaldi")
