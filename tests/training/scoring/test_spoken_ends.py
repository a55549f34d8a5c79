"""A character ends with its sound, as an offline aligner finds it."""

import numpy as np
import pytest
from numpy.typing import NDArray

from cortado.model.emission import Character
from cortado.tests.training.alignment.test_letter_phones import LEXICON
from cortado.training.alignment.hmm import Mixtures
from cortado.training.alignment.triphones import PhoneSequence, PhoneSpan, TriphoneAligner
from cortado.training.scoring.delay import delays
from cortado.training.scoring.spoken_ends import FRAME_OFFSET, SpokenEnds


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


def ends(text: str, seconds: float = 1.0) -> NDArray[np.float64]:
    spoken = SpokenEnds(UniformAligner(), LEXICON)
    return spoken.ends(np.zeros(round(16_000 * seconds), np.float32), text)


def test_letters_end_with_their_phones_and_silent_ones_with_the_letter_before() -> None:
    wanted = [1, 2, 3, 3, np.nan, 4, 5, 7, np.nan, 8, 9, 10, 10]
    np.testing.assert_allclose(ends("made six made"), 0.05 * np.array(wanted) - FRAME_OFFSET)


def test_what_is_right_is_measured_from_the_end_of_its_phone() -> None:
    written = [Character(c, t) for c, t in zip("mabe", (0.2, 0.3, 0.4, 0.5), strict=True)]
    found = delays("made", ends("made"), written, 0.08)  # the b is wrong
    wanted = [late + 0.08 + FRAME_OFFSET for late in (0.2 - 0.05, 0.3 - 0.1, 0.5 - 0.15)]
    np.testing.assert_allclose(found, wanted)


@pytest.mark.parametrize(("text", "seconds"), [("made six", 0.05), ("made up", 1.0), ("", 1.0)])
def test_there_are_no_ends_without_room_or_pronunciation(text: str, seconds: float) -> None:
    assert len(ends(text, seconds)) == len(text)
    assert np.isnan(ends(text, seconds)).all()
