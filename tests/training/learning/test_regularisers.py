"""Dropout and frozen norms act in training alone, and only in the stages that ask for them."""

import copy

import torch

from cortado.tests.training.tiny import fresh
from cortado.training.learning.trainer import freeze_norm, set_dropout

LOGMEL = torch.randn(2, 40, 80, generator=torch.Generator().manual_seed(1)) - 5


def test_dropout_leaves_out_a_share_of_the_encoder_s_outputs() -> None:
    recognizer = fresh(seed=2).train()
    freeze_norm(recognizer)
    whole = recognizer.encode_logmel(LOGMEL)
    set_dropout(recognizer, 0.5)
    left = torch.stack([recognizer.encode_logmel(LOGMEL) == 0 for _ in range(200)])
    share = left.float().mean(0)[whole > 0].mean()
    assert 0.45 < share < 0.8  # of what was not 0; inputs that are missing silence some more


def test_dropout_is_undone_for_a_stage_without_it_and_in_serving() -> None:
    recognizer = fresh(seed=2).train()
    freeze_norm(recognizer)
    whole = recognizer.encode_logmel(LOGMEL)
    set_dropout(recognizer, 0.5)
    serving = recognizer.eval().encode_logmel(LOGMEL)
    set_dropout(recognizer, 0.0)
    recognizer.train()
    freeze_norm(recognizer)
    torch.testing.assert_close(recognizer.encode_logmel(LOGMEL), whole)
    torch.testing.assert_close(serving, whole)


def test_frozen_norms_keep_their_statistics() -> None:
    free = fresh(seed=2).train()
    frozen = copy.deepcopy(free)
    freeze_norm(frozen)
    before = copy.deepcopy(frozen.state_dict())
    free.encode_logmel(LOGMEL)
    frozen.encode_logmel(LOGMEL)
    for name, tensor in frozen.state_dict().items():
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0)
    assert not torch.equal(
        free.encoder.conv1.norm.running_mean, before["encoder.conv1.norm.running_mean"]
    )
