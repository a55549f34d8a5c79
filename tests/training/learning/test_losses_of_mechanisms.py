"""Which losses each kind of decoder has, and the end of sequence that some of them learn."""

from dataclasses import replace
from typing import Any, get_args

import pytest
import torch
from torch.nn.functional import cross_entropy

from cortado.model.attention.config import MONOTONIC, AttentionConfig, Kind
from cortado.model.config import DecoderConfig
from cortado.model.recognizer import Recognizer
from cortado.tests.training.tiny import MODEL, fresh, noise_batch
from cortado.training.data.batches import Batch
from cortado.training.learning.losses import losses, with_end
from cortado.training.learning.stage import Stage

STAGE = Stage("all", 1, ctc=0.3, attention=1.0, stop=0.3, quantity=0.2)


def recognizer(attention: Any, kind: Any = "bahdanau") -> Recognizer:
    return fresh(replace(MODEL, decoder=DecoderConfig(8, 4, attention, kind)))


def batch(texts: list[list[int]]) -> Batch:
    return noise_batch(texts, range(8, 8 + len(texts)))


def test_an_end_stands_behind_every_text() -> None:
    heard = with_end(batch([[1, 2, 3], [], [4]]), 28)
    assert heard.targets.tolist() == [[1, 2, 3, 28], [28, 0, 0, 0], [4, 28, 0, 0]]
    assert heard.target_lengths.tolist() == [4, 1, 2]


@pytest.mark.parametrize("kind", get_args(Kind))
def test_only_what_streams_has_losses_of_stops(kind: Kind) -> None:
    parts = losses(recognizer(AttentionConfig(8, kind=kind)), batch([[1, 2, 3], []]), STAGE)
    stops = ["stop", "quantity"] if kind in MONOTONIC else []
    assert list(parts) == ["ctc", "attention", *stops, "total"]
    assert all(value.isfinite() for value in parts.values())
    parts["total"].backward()


def test_soft_attention_can_be_guided_and_learns_to_look_there() -> None:
    model = recognizer(AttentionConfig(8, kind="soft"))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    heard, stage = batch([[1, 2, 3], [4]]), replace(STAGE, guide=1.0)
    found = []
    for _ in range(80):
        optimizer.zero_grad()
        parts = losses(model, heard, stage)
        parts["total"].backward()
        optimizer.step()
        found.append(parts["guide"].item())
    assert list(parts) == ["ctc", "attention", "guide", "total"]
    assert found[-1] < found[0] / 2


def test_the_end_is_a_symbol_like_any_other() -> None:
    model = recognizer(AttentionConfig(8, kind="soft")).eval()
    heard = batch([[1, 2, 3], [4]])
    with torch.no_grad():
        encoded = model.encode_logmel(heard.logmel)
        mask = model.frame_mask(heard.lengths, encoded.shape[1])
        logits = model.decoder.teacher_forced(encoded, mask, heard.targets).logits
        found = losses(model, heard, STAGE)["attention"]
    rows = torch.cat([logits[0, :4], logits[1, :2]])
    wanted = cross_entropy(rows, torch.tensor([1, 2, 3, 28, 4, 28]))
    assert found.item() == pytest.approx(wanted.item(), rel=2e-2)  # the encoder's bf16


def test_ctc_alone_trains_on_its_own_loss() -> None:
    model = recognizer(AttentionConfig(), "ctc")
    parts = losses(model, batch([[1, 2, 3], [4]]), STAGE)
    assert list(parts) == ["ctc", "total"]
    parts["total"].backward()
    assert all(p.grad is not None for p in model.parameters())
