"""The search of texts: hard stops against expected weights, and the beam against all texts."""

from itertools import product
from typing import Literal

import pytest
import torch

from cortado.model.attention.config import MONOTONIC, AttentionConfig, Kind
from cortado.model.config import DecoderConfig
from cortado.tests.training.text.text_models import (
    KINDS,
    LETTERS,
    WORDS,
    model,
    recipe,
    saturated,
    source,
)
from cortado.training.text.batches import collate
from cortado.training.text.loss import loss
from cortado.training.text.model import TextModel
from cortado.training.text.readers import Pair
from cortado.training.text.recipe import TokenEncoderConfig, Training
from cortado.training.text.search import search

WIDE = TokenEncoderConfig(6, 4, bidirectional=True)
TEXT = ("a", "new", "word", *LETTERS[2:], "word")


@pytest.mark.parametrize("kind", MONOTONIC)
@pytest.mark.parametrize("order", ["bahdanau", "luong"])
@pytest.mark.parametrize("copies", [False, True])
def test_hard_stops_are_the_expected_weights_of_energies_far_from_zero(
    kind: Kind, order: Literal["bahdanau", "luong"], copies: bool
) -> None:
    stopped = ran_off = 0
    for seed in range(8):
        decoder = DecoderConfig(8, 4, kind=order, layers=2)
        chosen = recipe(AttentionConfig(8, 3, kind=kind, span=20), decoder, WIDE, copies=copies)
        built, text = saturated(model(chosen, seed)), source(TEXT, copies)
        hard, expected = (search(built, text, way, 3, 8) for way in (True, False))
        assert hard.symbols == expected.symbols
        torch.testing.assert_close(hard.weights, expected.weights, atol=1e-4, rtol=0)
        mass = hard.weights.sum(1)
        stopped, ran_off = stopped + int((mass > 0.5).sum()), ran_off + int((mass < 0.5).sum())
    assert stopped > 10
    assert ran_off > 0


def mean_nats(built: TextModel, target: tuple[str, ...]) -> float:
    """The loss of a target, for each of its words and its end."""
    batch = collate([Pair(TEXT, target)], WORDS, built.copies)
    with torch.inference_mode():
        one = loss(built, batch, Training(1))
    return one.nats.item() / one.words


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("copies", [False, True])
def test_a_beam_that_holds_every_text_finds_the_likeliest_of_them(kind: Kind, copies: bool) -> None:
    chosen = recipe(AttentionConfig(8, 3, kind=kind), copies=copies)
    known = ("<unk>", *LETTERS, *(("new", "word") if copies else ()))
    for seed in range(3):
        built = model(chosen, seed)
        with torch.no_grad():
            built.decoder.output.weight.mul_(6)
        texts = [text for count in range(3) for text in product(known, repeat=count)]
        best = min(texts, key=lambda text: mean_nats(built, text))
        extra = WORDS.target.lacking(TEXT) if copies else ()
        found = search(built, source(TEXT, copies), False, 1000, 2, pruning=1e9)
        assert WORDS.target.decode(found.symbols, extra) == list(best)
        assert found.weights.shape == (len(best), len(TEXT))


def test_one_hypothesis_is_the_greedy_text() -> None:
    built = model(recipe(AttentionConfig(8, kind="soft")), 4)
    with torch.no_grad():
        built.decoder.output.weight.mul_(6)
    text, decoder = source(TEXT), built.decoder
    found = search(built, text, False, 1, 6)
    with torch.inference_mode():
        encoded = built.encoder.encode(text.words[None], torch.tensor([len(TEXT)]))
        targets = torch.tensor([found.symbols], dtype=torch.long).view(1, -1)
        decoded = decoder.teacher_forced(
            encoded.values, encoded.mask, targets, first=built.first(encoded)
        )
    greedy = decoded.logits[0].argmax(1).tolist()
    assert greedy[: len(found.symbols)] == list(found.symbols)
    assert len(found.symbols) == 6 or greedy[-1] == decoder.end


def test_hard_stops_of_soft_attention_are_refused() -> None:
    built = model(recipe(AttentionConfig(8, kind="soft")))
    with pytest.raises(ValueError, match="monotonic attention for hard stops, got SoftAttention"):
        search(built, source("ab"), True, 1, 4)
