"""Letters take the phones that they stand for."""

import pytest

from cortado.training.alignment.letter_phones import LetterPhones
from cortado.training.data.pronounce import PHONES

PRONOUNCED = (
    *("made m eɪ d", "same s eɪ m", "name n eɪ m", "mad m æ d", "sam s æ m", "dad d æ d"),
    *("six s ɪ k s", "mix m ɪ k s", "fix f ɪ k s", "sit s ɪ t", "fat f æ t", "tame t eɪ m"),
    *("tax t æ k s", "wax w æ k s", "sax s æ k s", "ox ɑ k s", "sin s ɪ n", "bit b ɪ t"),
    *("daze d eɪ z", "zit z ɪ t", "tea t i", "team t i m", "eat i t", "seat s i t"),
)
LEXICON = {
    word: [PHONES.index(one) for one in phones.split()]
    for word, phones in (line.split(maxsplit=1) for line in PRONOUNCED)
}


@pytest.fixture(scope="module")
def letter_phones() -> LetterPhones:
    return LetterPhones(LEXICON)


@pytest.mark.parametrize(
    ("word", "segment"),
    [("mad", [1, 2, 3]), ("made", [1, 2, 3, 3]), ("six", [1, 2, 4]), ("zit", [1, 2, 3])],
)
def test_letters_take_their_phones(
    letter_phones: LetterPhones, word: str, segment: list[int]
) -> None:
    assert letter_phones.segment(word, LEXICON[word]) == segment


def test_a_word_of_more_phones_than_its_letters_take_is_divided_all_the_same() -> None:
    many = {"w": list(range(7)), "ab": [1, 2]}
    assert LetterPhones(many).segment("w", many["w"]) == [7]
