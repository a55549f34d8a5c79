"""Pictures of what no trained model writes are drawn as well; a warning is a failure here."""

from pathlib import Path

import numpy as np
import pytest

from cortado.model.emission import Character
from cortado.training.scoring.attending import Attending
from cortado.training.scoring.attention_picture import LETTERS_OF_A_WORD, draw

SECONDS = 2.0


def attending(text: str) -> Attending:
    """Characters at equal distances in two seconds of noise, two at each encoder frame."""
    random = np.random.default_rng(0)
    frames = round(SECONDS / 0.04)
    at = np.linspace(0, frames - 1, len(text)).astype(int)
    weights = np.zeros((len(text), frames), np.float32)
    weights[np.arange(len(text)), at] = 1
    characters = tuple(Character(one, 0.04 * (k + 1)) for one, k in zip(text, at, strict=True))
    logmel = random.normal(size=(80, round(SECONDS * 100))).astype(np.float32)
    return Attending(logmel, characters, weights, weights, 0, "")


@pytest.mark.parametrize("stops", [0, 3])
def test_characters_that_the_attention_does_not_stop_for_have_rows_too(
    stops: int, tmp_path: Path
) -> None:
    whole = attending("bade")
    part = whole._replace(characters=whole.characters[:stops], weights=whole.weights[:stops])
    draw(part, tmp_path / "a.svg")
    assert "expected to stop" in (tmp_path / "a.svg").read_text()


@pytest.mark.parametrize("text", ["a" * 300, "b" * 120 + " " + "c" * 120, "de " * 100])
def test_far_too_many_characters_leave_the_picture_its_room(text: str, tmp_path: Path) -> None:
    draw(attending(text), tmp_path / "a.svg", text)
    longest = max(text.split(), key=len)
    words = (tmp_path / "a.svg").read_text()
    assert f">{longest[: LETTERS_OF_A_WORD - 1]}" in words
    assert (f">{longest}<" in words) == (len(longest) <= LETTERS_OF_A_WORD)
