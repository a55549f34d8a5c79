"""A character is late by the time from the end of its sound to the step that writes it."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cortado.model.emission import Character
from cortado.tests.training.alignment.test_spelt import LEXICON, Even
from cortado.training.alignment.spelt import LATE, Spelling
from cortado.training.data.manifest import Utterance
from cortado.training.scoring.spoken_delay import spoken_delay


def test_what_is_heard_right_is_measured_from_the_end_of_its_phone() -> None:
    said = Utterance("one", Path("one.wav"), 1.0, "a", "made")
    written = [Character(c, t) for c, t in zip("mabe", (0.2, 0.3, 0.4, 0.5), strict=True)]

    def silent(_: Utterance) -> NDArray[np.float32]:
        return np.zeros((100, 80), np.float32)

    spelling = Spelling(LEXICON, LEXICON.words)
    found = spoken_delay([(said, written)], Even(), spelling, LEXICON, 0.08, silent)
    assert found is not None
    assert found.characters == 3  # the b is wrong
    wanted = [1000 * (late + 0.08 + LATE) for late in (0.2 - 0.05, 0.3 - 0.1, 0.5 - 0.15)]
    assert found.p50_ms == pytest.approx(np.percentile(wanted, 50), abs=0.1)
    assert found.p90_ms == pytest.approx(np.percentile(wanted, 90), abs=0.1)
    assert spoken_delay([(said, [])], Even(), spelling, LEXICON, 0.08, silent) is None
