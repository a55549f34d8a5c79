"""Expected chunks against a literal triple loop, and expectation against hard decoding."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from model.alignment import first_alignment
from model.attention import AttentionConfig
from model.attention.mocha import MoChA
from model.chunks import expected_chunk


def oracle(alpha: Tensor, energies: Tensor, chunk: int) -> Tensor:
    """beta (B, T): alpha_k times a softmax over its own window, entry by entry (eq. 19)."""
    batch, frames = alpha.shape
    rows = []
    for b in range(batch):
        beta = [alpha.new_zeros(())] * frames
        for k in range(frames):
            window = range(max(0, k - chunk + 1), k + 1)
            top = max(energies[b, j].item() for j in window)
            total = sum(((energies[b, j] - top).exp() for j in window), alpha.new_zeros(()))
            for j in window:
                beta[j] = beta[j] + alpha[b, k] * (energies[b, j] - top).exp() / total
        rows.append(torch.stack(beta))
    return torch.stack(rows)


def drawn(frames: int) -> tuple[Tensor, Tensor]:
    """alpha, and energies from -80 to 80."""
    torch.manual_seed(frames)
    return torch.rand(2, frames) / frames, 160 * torch.rand(2, frames) - 80


@pytest.mark.parametrize("chunk", [1, 2, 4])
@pytest.mark.parametrize("frames", [1, 2, 3, 25])
def test_expected_chunks_equal_the_triple_loop(frames: int, chunk: int) -> None:
    alpha, energies = drawn(frames)
    fast = [alpha.clone().requires_grad_(), energies.clone().requires_grad_()]
    slow = [alpha.double().requires_grad_(), energies.double().requires_grad_()]
    found = expected_chunk(fast[0], fast[1], chunk)
    wanted = oracle(slow[0], slow[1], chunk)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(found.sum(1), alpha.sum(1))  # a chunk shares its stop's mass out
    weight = torch.randn(2, frames)
    (found * weight).sum().backward()
    (wanted * weight).sum().backward()
    for one, other in zip(fast, slow, strict=True):
        if one.grad is None:  # hard monotonic attention has no chunk energies
            assert chunk == 1
            continue
        assert other.grad is not None
        torch.testing.assert_close(one.grad.double(), other.grad, rtol=1e-4, atol=1e-6)


def test_a_chunk_of_one_frame_is_hard_monotonic_attention_bit_for_bit() -> None:
    alpha, energies = drawn(30)
    assert torch.equal(expected_chunk(alpha, energies, 1), alpha)


def test_chunks_pass_gradcheck() -> None:
    torch.manual_seed(0)
    alpha = torch.rand(2, 5).double().requires_grad_()
    energies = torch.randn(2, 5).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda a, u: expected_chunk(a, u, 3), (alpha, energies))


def test_a_chunk_far_below_the_maximum_of_its_row_keeps_its_shape() -> None:
    energies = torch.tensor([[80.0, 0.0, -80.0, -79.0]])
    alpha = torch.tensor([[0.0, 0.0, 0.0, 1.0]])
    found = expected_chunk(alpha, energies, 2)[0]
    assert found[3].item() == pytest.approx(1 / (1 + np.exp(-1)))
    assert found[2].item() == pytest.approx(1 / (1 + np.exp(1)))


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
        window = slice(max(0, stop - attention.chunk + 1), stop + 1)
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
