"""Letters end with their phones, silent ones with the letter before them."""

import numpy as np
import pytest
from numpy.typing import NDArray

from cortado.training.alignment.hmm import Mixtures
from cortado.training.alignment.letter_ends import FRAME_OFFSET, LetterPhones, letter_ends
from cortado.training.alignment.triphones import PhoneSequence, PhoneSpan, TriphoneAligner
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


class UniformAligner(TriphoneAligner):
    """Finds every phone to last 50 ms."""

    def __init__(self) -> None:
        none = np.ones((1, 1, 1))
        super().__init__(none.astype(np.int32), Mixtures(none[0], none, none))

    def spans(self, logmel: NDArray[np.float32], phones: PhoneSequence) -> list[PhoneSpan] | None:
        spoken = [(p, w) for p, w in zip(phones.phones, phones.word, strict=True) if w >= 0]
        if len(logmel) < 5 * len(spoken):
            return None
        return [PhoneSpan(int(p), int(w), 5 * k, 5 * k + 5) for k, (p, w) in enumerate(spoken)]


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


def test_letters_end_with_their_phones(letter_phones: LetterPhones) -> None:
    frames = np.zeros((100, 80), np.float32)
    found = letter_ends(UniformAligner(), letter_phones, LEXICON, frames, "made six made")
    wanted = [1, 2, 3, 3, np.nan, 4, 5, 7, np.nan, 8, 9, 10, 10]
    np.testing.assert_allclose(found, 0.05 * np.array(wanted) - FRAME_OFFSET)


def test_there_are_no_ends_without_room_or_pronunciation(letter_phones: LetterPhones) -> None:
    for frames, text in ((5, "made six"), (100, "made up"), (100, "")):
        found = letter_ends(
            UniformAligner(), letter_phones, LEXICON, np.zeros((frames, 80), np.float32), text
        )
        assert found.shape == (len(text),)
        assert np.isnan(found).all()
