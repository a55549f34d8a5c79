"""Chunks at the beginning, and noise in training only."""

import torch
from torch import Tensor

import cortado.model.compiled.operations  # noqa: F401
from cortado.model.attention import AttentionConfig
from cortado.model.attention.expected_alignment import first_alignment
from cortado.model.attention.mocha import MoChA


def test_what_was_before_the_first_frame_takes_no_weight() -> None:
    torch.manual_seed(0)
    attention = MoChA(AttentionConfig(width=6, chunk=3), 5, 7)
    query, values = torch.randn(1, 5), torch.randn(1, 3, 7)
    keys = attention.chunkwise.key(values)
    valid = torch.tensor([[False, True, True]])
    short = attention.context(query, keys[:, 1:], values[:, 1:], valid[:, 1:])
    torch.testing.assert_close(attention.context(query, keys, values, valid), short)


def test_noise_is_drawn_in_training_only() -> None:
    torch.manual_seed(0)
    attention = MoChA(AttentionConfig(width=6), 5, 7)
    values, query = torch.randn(1, 9, 7), torch.randn(1, 5)
    mask = torch.ones(1, 9, dtype=torch.bool)

    def alpha(noise: float) -> Tensor:
        keys = attention.keys(values, mask)
        return attention.attend(query, keys, first_alignment(1, 9), noise).memory

    assert torch.equal(alpha(0.0), alpha(0.0))
    assert not torch.equal(alpha(1.0), alpha(1.0))
