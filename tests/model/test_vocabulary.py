import pytest

from cortado.model.vocabulary import ENGLISH, Vocabulary


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


PHONES = Vocabulary(phones=("sh", "iy", "h#"))


def test_phones_are_symbols_with_spaces_between() -> None:
    assert (len(PHONES), PHONES.blank) == (3, 3)
    assert PHONES.encode("h# sh  iy ") == [2, 0, 1]
    assert PHONES.decode([2, 0, 1]) == "h# sh iy"
    assert PHONES.encode("") == []


def test_a_stream_writes_the_space_with_the_phone_before_it() -> None:
    assert PHONES.texts == ("sh ", "iy ", "h# ")
    assert Vocabulary("xy").texts == ("x", "y")
    assert PHONES.spaced
    assert Vocabulary().spaced
    assert not Vocabulary("xy").spaced


def test_an_unknown_phone_is_named() -> None:
    with pytest.raises(ValueError, match=r"expected phones among 'sh iy h#', got 's'"):
        PHONES.encode("sh s")


@pytest.mark.parametrize("phones", [("a", "a"), ("a", ""), ("a b",), (" ",)])
def test_phones_are_distinct_and_without_spaces(phones: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"expected distinct phones without spaces, got "):
        Vocabulary(phones=phones)
