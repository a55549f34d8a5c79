"""A character ends with its sound, as an offline aligner finds it."""

import numpy as np

from cortado.model.emission import Character
from cortado.tests.training.alignment.test_letter_ends import LEXICON, UniformAligner
from cortado.training.alignment.letter_ends import FRAME_OFFSET
from cortado.training.scoring.delay import delays
from cortado.training.scoring.spoken_ends import SpokenEnds


def test_what_is_right_is_measured_from_the_end_of_its_phone() -> None:
    ends = SpokenEnds(UniformAligner(), LEXICON).ends(np.zeros(16_000, np.float32), "made")
    written = [Character(c, t) for c, t in zip("mabe", (0.2, 0.3, 0.4, 0.5), strict=True)]
    found = delays("made", ends, written, 0.08)  # the b is wrong
    wanted = [late + 0.08 + FRAME_OFFSET for late in (0.2 - 0.05, 0.3 - 0.1, 0.5 - 0.15)]
    np.testing.assert_allclose(found, wanted)


def test_words_that_nobody_can_pronounce_have_no_ends() -> None:
    ends = SpokenEnds(UniformAligner(), LEXICON).ends(np.zeros(16_000, np.float32), "qqq")
    assert np.isnan(ends).all()
