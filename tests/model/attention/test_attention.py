"""The expectation against hard decoding."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

import cortado.model.compiled.operations  # noqa: F401
from cortado.model.attention import AttentionConfig
from cortado.model.attention.expected_alignment import first_alignment
from cortado.model.attention.mocha import MoChA


@pytest.mark.parametrize("chunk", [1, 2, 4])
def test_saturated_energies_make_the_expectation_the_hard_decoding(chunk: int) -> None:
    torch.manual_seed(chunk)
    attention = MoChA(AttentionConfig(width=64, chunk=chunk, bias=-1e4), 5, 7)
    seen = set()
    with torch.no_grad():
        attention.monotonic.scale.fill_(1e5)
        for utterance in range(12):
            values, queries = torch.randn(1, 20, 7), torch.randn(6, 1, 5)
            seen |= {(utterance, stop) for stop in hard_stops(attention, values, queries)}
    assert len(seen) > 4
    assert any(stop < chunk - 1 for _, stop in seen) or chunk == 1


def hard_stops(attention: MoChA, values: Tensor, queries: Tensor) -> Iterator[int]:
    """Yield the stops of an utterance's queries, each compared with its expectation."""
    keys = attention.keys(values, torch.ones(1, 20, dtype=torch.bool))
    monotonic, chunkwise = attention.monotonic.key(values), attention.chunkwise.key(values)
    alpha, stop = first_alignment(1, 20), 0
    for query in queries:
        context, _, alpha, _ = attention.attend(query, keys, alpha)
        while stop < 20 and attention.energy(query, monotonic[:, stop]) < 0:
            stop += 1
        if stop == 20:  # the scan ran off the end
            assert not alpha.any()
            assert not context.any()
            return
        assert alpha[0].nonzero()[:, 0].tolist() == [stop]
        assert alpha[0, stop] == 1
        window = slice(max(0, stop - attention.window + 1), stop + 1)
        valid = torch.ones(1, window.stop - window.start, dtype=torch.bool)
        hard = attention.context(query, chunkwise[:, window], values[:, window], valid)
        torch.testing.assert_close(context, hard, rtol=1e-4, atol=1e-5)
        yield stop


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


def test_padding_takes_no_mass() -> None:
    torch.manual_seed(0)
    attention = MoChA(AttentionConfig(width=6, bias=2.0), 5, 7)
    values, query = torch.randn(2, 9, 7), torch.randn(2, 5)
    mask = torch.arange(9) < torch.tensor([[4], [9]])
    junk = torch.where(mask.unsqueeze(2), values, 50.0)
    found = [
        attention.attend(query, attention.keys(x, mask), first_alignment(2, 9))
        for x in (values, junk)
    ]
    assert not found[0].memory[0, 4:].any()
    torch.testing.assert_close(found[0].context, found[1].context)
