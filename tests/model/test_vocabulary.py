import pytest

from model.vocabulary import ENGLISH, Vocabulary


def test_the_default_is_space_apostrophe_and_a_to_z() -> None:
    assert Vocabulary().characters == ENGLISH == " 'abcdefghijklmnopqrstuvwxyz"
    assert len(Vocabulary()) == 28


def test_text_survives_encoding_and_decoding() -> None:
    text = "it's the quick brown fox"
    assert Vocabulary().decode(Vocabulary().encode(text)) == text
    assert Vocabulary().encode("") == []
    assert Vocabulary().decode([]) == ""


def test_symbols_are_places_in_the_characters() -> None:
    assert Vocabulary("xyz").encode("zxy") == [2, 0, 1]


def test_the_blank_is_no_character() -> None:
    assert Vocabulary("xyz").blank == 3


def test_an_unknown_character_is_named() -> None:
    with pytest.raises(ValueError, match=r"expected characters among 'xyz', got 'é'"):
        Vocabulary("xyz").encode("xéy")


@pytest.mark.parametrize("characters", ["", "aba"])
def test_characters_are_distinct_and_there_is_one(characters: str) -> None:
    with pytest.raises(ValueError, match=r"expected distinct characters, at least one, got '"):
        Vocabulary(characters)
