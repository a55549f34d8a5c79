"""A toy task that each mechanism learns without an error, monotonic ones with hard stops.

Pairs of letters are written in another order than they are read: a hard stop at the second
letter of a pair can still write both, because the encoder's frame there knows the first. Over a
whole text, reversing is out of reach of stops that never go back.
"""

from collections.abc import Sequence

import pytest

from cortado.model.attention.config import AttentionConfig, Kind
from cortado.model.config import DecoderConfig
from cortado.tests.training.text.text_models import KINDS, learn, model, recipe
from cortado.training.text.recipe import TokenEncoderConfig, Training

WIDTH = 32


def reversed_pairs(text: Sequence[str]) -> list[str]:
    return [one for k in range(0, len(text), 2) for one in reversed(text[k : k + 2])]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_mechanism_learns_it_without_an_error(kind: Kind) -> None:
    training = Training(1500, 32, 1e-2, noise=2.0)
    chosen = recipe(
        AttentionConfig(WIDTH, 2, kind=kind),
        DecoderConfig(WIDTH, 16),
        TokenEncoderConfig(16, WIDTH),
        training,
    )
    assert learn(model(chosen), reversed_pairs, training) == 0
