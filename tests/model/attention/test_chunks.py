"""Expected chunks against a literal triple loop in float64, gradients and all."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import cortado.model.compiled.operations  # noqa: F401
from cortado.model.attention.expected_chunk import expected_chunk
from cortado.model.operation import plain
from cortado.tests import needs


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


def fast_oracle(alpha: Tensor, energies: Tensor, chunk: int) -> np.ndarray:
    """The same without autograd, for long rows."""
    a, u = alpha.double().numpy(), energies.double().numpy()
    beta = np.zeros_like(a)
    for b in range(len(a)):
        for k in range(a.shape[1]):
            first = max(0, k - chunk + 1)
            share = np.exp(u[b, first : k + 1] - u[b, first : k + 1].max())
            beta[b, first : k + 1] += a[b, k] * share / share.sum()
    return beta


def drawn(frames: int) -> tuple[Tensor, Tensor]:
    """alpha, and energies from -80 to 80."""
    torch.manual_seed(frames)
    return torch.rand(2, frames) / frames, 160 * torch.rand(2, frames) - 80


def windows(alpha: Tensor, energies: Tensor, chunk: int) -> Tensor:
    """The definition, whatever is compiled."""
    with plain():
        return expected_chunk(alpha, energies, chunk)


@pytest.mark.parametrize("form", [expected_chunk, windows])
@pytest.mark.parametrize("chunk", [2, 4])
@pytest.mark.parametrize("frames", [1, 2, 3, 25])
def test_chunks_and_gradients_equal_the_triple_loop(frames: int, chunk: int, form) -> None:  # type: ignore[no-untyped-def]
    alpha, energies = drawn(frames)
    fast = [alpha.clone().requires_grad_(), energies.clone().requires_grad_()]
    slow = [alpha.double().requires_grad_(), energies.double().requires_grad_()]
    found, wanted = form(*fast, chunk), oracle(slow[0], slow[1], chunk)
    torch.testing.assert_close(found.double(), wanted, rtol=0, atol=1e-6)
    torch.testing.assert_close(found.sum(1), alpha.sum(1))  # a chunk shares its stop's mass out
    weight = torch.randn(2, frames)
    gradients = torch.autograd.grad(found, fast, weight)
    exact = torch.autograd.grad(wanted, slow, weight.double())
    for one, other in zip(gradients, exact, strict=True):
        if form is windows:  # softmax's own gradient cancels where it saturates
            torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-6)
            continue
        scale = float(other.abs().max())
        torch.testing.assert_close(one.double(), other, rtol=0, atol=1e-5 * scale)


@pytest.mark.parametrize("chunk", [2, 8])
@pytest.mark.parametrize("reach", [0.1, 5.0, 80.0])
def test_chunks_are_exact_at_any_length(chunk: int, reach: float) -> None:
    for frames in (1, 2, 10, 100, 1000, 4000):
        torch.manual_seed(frames)
        alpha = torch.rand(2, frames).softmax(1)
        energies = reach * (2 * torch.rand(2, frames) - 1)
        error = np.abs(
            expected_chunk(alpha, energies, chunk).double().numpy()
            - fast_oracle(alpha, energies, chunk)
        ).max()
        assert error < 1e-6, f"T = {frames}: off by {error}"


@settings(max_examples=50)
@given(
    frames=st.integers(1, 30),
    chunk=st.integers(1, 40),
    reach=st.sampled_from([0.0, 1.0, 30.0, 80.0, 1e4]),
    seed=st.integers(0, 2**16),
)
def test_any_chunk_keeps_the_mass_and_stays_finite(
    frames: int, chunk: int, reach: float, seed: int
) -> None:
    torch.manual_seed(seed)
    alpha = (torch.rand(3, frames) / frames).requires_grad_()
    energies = (reach * torch.randn(3, frames)).requires_grad_()
    beta = expected_chunk(alpha, energies, chunk)
    torch.testing.assert_close(beta.sum(1), alpha.sum(1))
    assert (beta >= 0).all()
    np.testing.assert_allclose(
        beta.detach().double().numpy(),
        fast_oracle(alpha.detach(), energies.detach(), chunk),
        atol=1e-6,
    )
    (beta * torch.randn_like(beta)).sum().backward()
    assert alpha.grad is not None
    assert alpha.grad.isfinite().all()
    assert energies.grad is None or energies.grad.isfinite().all()


def test_a_chunk_of_one_frame_is_hard_monotonic_attention_bit_for_bit() -> None:
    alpha, energies = drawn(30)
    assert torch.equal(expected_chunk(alpha, energies, 1), alpha)


@pytest.mark.parametrize("chunk", [2, 3, 9])
def test_chunks_pass_gradcheck(chunk: int) -> None:
    torch.manual_seed(0)
    alpha = torch.rand(2, 5).double().requires_grad_()
    energies = torch.randn(2, 5).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda a, u: expected_chunk(a, u, chunk), (alpha, energies))


def test_a_chunk_far_below_the_maximum_of_its_row_keeps_its_shape() -> None:
    energies = torch.tensor([[80.0, 0.0, -80.0, -79.0]])
    alpha = torch.tensor([[0.0, 0.0, 0.0, 1.0]])
    found = expected_chunk(alpha, energies, 2)[0]
    assert found[3].item() == pytest.approx(1 / (1 + np.exp(-1)))
    assert found[2].item() == pytest.approx(1 / (1 + np.exp(1)))


def test_padding_takes_nothing_and_changes_nothing_before_it() -> None:
    alpha, energies = drawn(12)
    alpha[:, 7:] = 0
    beta = expected_chunk(alpha, energies, 3)
    assert not beta[:, 7:].any()
    assert torch.equal(beta[:, :7], expected_chunk(alpha[:, :7], energies[:, :7], 3))


@needs.gpu
def test_a_gpu_gives_what_the_cpu_gives() -> None:
    alpha, energies = drawn(500)
    found = expected_chunk(alpha.cuda(), energies.cuda(), 4).cpu()
    torch.testing.assert_close(found, expected_chunk(alpha, energies, 4), rtol=0, atol=1e-6)


@pytest.mark.parametrize("form", [expected_chunk, windows])
def test_no_frames_have_no_weights(form) -> None:  # type: ignore[no-untyped-def]
    assert form(torch.zeros(2, 0), torch.zeros(2, 0), 3).shape == (2, 0)


def test_a_chunk_without_frames_is_refused() -> None:
    with pytest.raises(ValueError, match="1 frame or more, got 0"):
        expected_chunk(torch.zeros(1, 3), torch.zeros(1, 3), 0)
