"""MAtChA's attention against a literal quadruple loop in float64, gradients and all."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

import cortado.model.compiled.operations  # noqa: F401
from cortado.model.attention.expected_alignment import expected_alignment, first_alignment
from cortado.model.attention.expected_chunk import expected_chunk
from cortado.model.attention.expected_span import expected_span
from cortado.model.operation import definition
from cortado.tests import needs
from cortado.tests.model.attention.stopping import KINDS, probabilities

Doubles = NDArray[np.float64]


def oracle(p: Tensor, previous: Tensor, energies: Tensor) -> Tensor:
    """beta (T,): over all entries, starts and ends, with the product and the sum spelt out."""
    frames = len(p)
    beta = []
    for j in range(frames):
        gained = p.new_zeros(())
        for k in range(j + 1):
            for l in range(j, frames):  # noqa: E741
                reached, total = previous[k], p.new_zeros(())
                for n in range(k, l + 1):
                    total = total + (energies[n] - energies[j]).exp()
                    reached = reached * (1 - p[n] if n < l else p[n])
                gained = gained + reached / total
        beta.append(gained)
    return torch.stack(beta)


def long_oracle(p: Doubles, previous: Doubles, energies: Doubles) -> Doubles:
    """The same for long rows: a softmax of each span, weighed by its probability."""
    frames = len(p)
    beta = np.zeros(frames)
    for k in range(frames):
        mass = previous[k]
        for last in range(k, frames):
            if mass * p[last] > 0:
                span = np.exp(energies[k : last + 1] - energies[k : last + 1].max())
                beta[k : last + 1] += mass * p[last] * span / span.sum()
            mass *= 1 - p[last]
    return beta


def drawn(kind: str, frames: int, reach: float = 80.0) -> tuple[Tensor, Tensor, Tensor]:
    """p, previous, and energies from -reach to reach, each (2, T)."""
    torch.manual_seed(frames)
    energies = reach * (2 * torch.rand(2, frames) - 1)
    return probabilities(kind, 2, frames), torch.rand(2, frames) / frames, energies


@pytest.mark.parametrize("kind", KINDS)
def test_spans_and_gradients_equal_the_quadruple_loop(kind: str) -> None:
    for frames, reach in ((1, 1.0), (2, 80.0), (7, 1.0), (7, 80.0)):
        inputs = drawn(kind, frames, reach)
        fast = [x.clone().requires_grad_() for x in inputs]
        slow = [x.double().requires_grad_() for x in inputs]
        alpha, beta = expected_span(*fast)
        wanted = torch.stack([oracle(*(x[b] for x in slow)) for b in range(2)])
        stops = expected_alignment(slow[0], slow[1])
        torch.testing.assert_close(beta.double(), wanted, rtol=0, atol=1e-6)
        torch.testing.assert_close(alpha.double(), stops, rtol=0, atol=1e-6)
        weights = torch.randn(2, 2, frames)
        found = torch.autograd.grad((beta * weights[0] + alpha * weights[1]).sum(), fast)
        exact = torch.autograd.grad((wanted * weights[0] + stops * weights[1]).sum(), slow)
        for one, other in zip(found, exact, strict=True):
            atol = 1e-5 * float(other.abs().max()) + 1e-12
            torch.testing.assert_close(one.double(), other, rtol=0, atol=atol)


@pytest.mark.parametrize("kind", KINDS)
def test_spans_are_exact_and_finite_on_longer_inputs(kind: str) -> None:
    for frames in (10, 100):
        inputs = [x.requires_grad_() for x in drawn(kind, frames)]
        alpha, beta = expected_span(*inputs)
        for b in range(2):
            wanted = long_oracle(*(x[b].detach().double().numpy() for x in inputs))
            error = np.abs(beta[b].detach().double().numpy() - wanted).max()
            assert error < 1e-6, f"T = {frames}: off by {error}"
        torch.testing.assert_close(alpha, expected_alignment(inputs[0], inputs[1]))
        torch.testing.assert_close(beta.sum(1), alpha.sum(1))
        gradients = torch.autograd.grad(beta, inputs, torch.randn_like(beta))
        assert all(one.isfinite().all() for one in gradients)


@pytest.mark.parametrize("kind", ["near 0", "mixed", "r = -4", "r = 4"])
@pytest.mark.parametrize("frames", [1000, 4000])
def test_nothing_is_lost_over_thousands_of_frames(kind: str, frames: int) -> None:
    p, previous, energies = drawn(kind, frames)
    starts = torch.tensor([0, 1, frames // 3, frames - 2])  # the oracle takes its time over each
    previous = torch.zeros_like(previous).index_fill_(1, starts, 0.25)
    beta = expected_span(p, previous, energies)[1]
    wanted = long_oracle(*(x[0].double().numpy() for x in (p, previous, energies)))
    assert np.abs(beta[0].double().numpy() - wanted).max() < 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_the_form_for_other_devices_equals_the_loops(kind: str) -> None:
    for frames in (1, 2, 30):
        inputs = [x.double() for x in drawn(kind, frames)]
        leaves = [x.clone().requires_grad_() for x in inputs]
        grads = torch.randn(2, frames).double(), torch.randn(2, frames).double()
        found = expected_span(*leaves)
        torch.autograd.backward(found, grads)
        torch.testing.assert_close(
            definition("expected_span")(*inputs), tuple(x.detach() for x in found)
        )
        for one, leaf in zip(
            definition("expected_span_backward")(*inputs, *grads), leaves, strict=True
        ):
            torch.testing.assert_close(one, leaf.grad, rtol=1e-9, atol=1e-12)


@needs.gpu
def test_a_gpu_gives_what_the_cpu_gives() -> None:
    inputs = drawn("r = -1", 100)
    found = expected_span(*(x.cuda() for x in inputs))
    for one, other in zip(found, expected_span(*inputs), strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=0, atol=1e-6)


def test_spans_pass_gradcheck() -> None:
    torch.manual_seed(0)
    p, previous = torch.rand(2, 5).double(), torch.rand(2, 5).double() / 5
    inputs = [x.requires_grad_() for x in (p, previous, torch.randn(2, 5).double())]
    assert torch.autograd.gradcheck(expected_span, inputs)


@settings(max_examples=50)
@given(
    frames=st.integers(1, 40),
    padding=st.integers(0, 5),
    reach=st.sampled_from([0.0, 1.0, 80.0, 1e4]),
    seed=st.integers(0, 2**16),
)
def test_padding_takes_nothing_and_changes_nothing(
    frames: int, padding: int, reach: float, seed: int
) -> None:
    torch.manual_seed(seed)
    p, previous = torch.rand(2, frames + padding), torch.rand(2, frames + padding) / frames
    energies = reach * torch.randn(2, frames + padding)
    p[:, frames:], previous[:, frames:] = 0, 0
    alpha, beta = expected_span(p, previous, energies)
    short = expected_span(p[:, :frames], previous[:, :frames], energies[:, :frames])
    assert torch.equal(alpha[:, :frames], short[0])
    assert torch.equal(beta[:, :frames], short[1])
    assert not beta[:, frames:].any()


def test_a_scan_that_stops_where_it_starts_attends_to_that_frame_alone() -> None:
    p, previous = torch.ones(1, 4), torch.tensor([[0.1, 0.2, 0.3, 0.4]])
    alpha, beta = expected_span(p, previous, torch.randn(1, 4))
    assert torch.equal(beta, previous)
    assert torch.equal(alpha, previous)


def test_a_sure_stop_is_mocha_with_a_chunk_from_the_last_stop() -> None:
    p, energies = torch.zeros(1, 6), torch.randn(1, 6)
    p[0, 3] = 1
    alpha, beta = expected_span(p, first_alignment(1, 6), energies)
    assert alpha.tolist() == [[0, 0, 0, 1, 0, 0]]
    torch.testing.assert_close(beta, expected_chunk(alpha, energies, 4))
