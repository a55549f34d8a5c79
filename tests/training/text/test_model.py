"""Token encoders, sampled softmax, and the order of batches."""

from itertools import islice

import pytest
import torch

from cortado.model.attention.config import AttentionConfig
from cortado.model.config import DecoderConfig
from cortado.tests.training.text.text_models import KINDS, WORDS, model, recipe
from cortado.training.text.batches import collate, ordered
from cortado.training.text.encoder import TokenEncoder
from cortado.training.text.loss import loss, sampled
from cortado.training.text.readers import Pair
from cortado.training.text.recipe import TokenEncoderConfig, Training

EVERY = [
    TokenEncoderConfig(6, 5, layers, kind, both)
    for kind in ("lstm", "gru")
    for layers in (1, 2)
    for both in (False, True)
]
PAIRS = [Pair(tuple("abcab"), tuple("ba")), Pair(tuple("fe"), tuple("effe"))]


@pytest.mark.parametrize("config", EVERY)
@torch.inference_mode()
def test_padding_changes_nothing_of_a_shorter_text(config: TokenEncoderConfig) -> None:
    torch.manual_seed(0)
    encoder = TokenEncoder(config, 9).eval()
    words = torch.randint(9, (2, 6))
    together = encoder.encode(words, torch.tensor([4, 6]))
    alone = encoder.encode(words[:1, :4], torch.tensor([4]))
    torch.testing.assert_close(together.values[:1, :4], alone.values)
    torch.testing.assert_close(together.last[:1], alone.last)
    assert together.mask.sum(1).tolist() == [4, 6]
    assert together.last.shape == (2, encoder.width)
    last = alone.values[0, -1, : config.width]  # of the forward direction
    torch.testing.assert_close(alone.last[0, : config.width], last)


def test_a_decoder_of_texts_is_refused_for_a_stream() -> None:
    decoder = model(recipe(AttentionConfig(8))).decoder
    with pytest.raises(ValueError, match="without an end of sequence for a stream, got one for"):
        decoder.initial_state(1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", ["bahdanau", "luong"])
@pytest.mark.parametrize("readout", ["linear", "maxout", "mlp"])
def test_every_weight_learns(kind: str, order: str, readout: str) -> None:
    decoder = DecoderConfig(8, 4, kind=order, layers=2, readout=readout)  # type: ignore[arg-type]
    built = model(recipe(AttentionConfig(8, kind=kind), decoder, copies=True))  # type: ignore[arg-type]
    batch = collate([*PAIRS, Pair(("new", "a"), ("new", "a"))], WORDS, True)
    loss(built, batch, Training(1)).total.backward()
    still = [
        name for name, one in built.named_parameters() if one.grad is None or not one.grad.any()
    ]
    assert [name for name in still if not name.endswith("chunkwise.bias")] == []


def test_a_sample_of_all_words_is_the_whole_softmax() -> None:
    built = model(recipe(AttentionConfig(8, kind="soft")))
    batch = collate(PAIRS, WORDS, False)
    built.train()
    whole, every = (
        loss(built, batch, Training(1, noise=0.0, sampled=count)).total for count in (0, 100)
    )
    torch.testing.assert_close(every, whole)


def test_the_denominator_of_a_sampled_softmax_is_right_on_average() -> None:
    torch.manual_seed(0)
    logits, wanted = torch.randn(50, dtype=torch.float64), torch.tensor([3, 3, 17])
    found = []
    for _ in range(4000):
        classes, offsets = sampled(wanted, 50, 10)
        assert len(classes) == 12
        assert set(wanted.tolist()) <= set(classes.tolist())
        found.append((logits[classes] + offsets).exp().sum().item())
    assert sum(found) / len(found) == pytest.approx(logits.exp().sum().item(), rel=0.01)


def test_each_epoch_has_every_pair_once_and_the_seed_fixes_the_order() -> None:
    pairs = [Pair((str(k),) * (1 + k % 7), ("x",)) for k in range(23)]
    epoch = list(islice(ordered(pairs, 4, 1), 6))
    assert sorted(pair for batch in epoch for pair in batch) == sorted(pairs)
    assert list(islice(ordered(pairs, 4, 1), 12))[:6] == epoch
    assert list(islice(ordered(pairs, 4, 2), 6)) != epoch
    assert max(len({len(pair.source) for pair in batch}) for batch in epoch) <= 3  # like lengths
