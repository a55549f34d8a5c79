"""The expected alignment against a literal double loop in float64."""

from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

import cortado.model.compiled.operations  # noqa: F401
from cortado.model.attention.expected_alignment import (
    expected_alignment,
    expected_alignments,
    first_alignment,
)
from cortado.model.operation import plain
from cortado.tests.model.attention import stopping
from cortado.tests.model.attention.stopping import KINDS

Doubles = NDArray[np.float64]
SYMBOLS = 4


def oracle(p: Doubles) -> Doubles:
    """alpha (U, T) of one utterance: alpha_ij = p_ij q_ij, entry by entry, from all mass on 1."""
    symbols, frames = p.shape
    alpha = np.zeros((symbols + 1, frames))
    alpha[0, 0] = 1
    for i in range(1, symbols + 1):
        q = 0.0
        for j in range(frames):
            passed = (1 - p[i - 1, j - 1]) * q if j else 0.0
            q = passed + alpha[i - 1, j]
            alpha[i, j] = p[i - 1, j] * q
    return alpha[1:]


def differentiable_oracle(p: Tensor) -> Tensor:
    """The same with float64 tensors, for autograd."""
    symbols, frames = p.shape
    rows, previous = [], [torch.ones((), dtype=torch.float64)] + [p.new_zeros(())] * (frames - 1)
    for i in range(symbols):
        q, row = p.new_zeros(()), []
        for j in range(frames):
            q = ((1 - p[i, j - 1]) * q if j else q) + previous[j]
            row.append(p[i, j] * q)
        rows.append(torch.stack(row))
        previous = row
    return torch.stack(rows)


def alignments(p: Tensor) -> Tensor:
    """alpha (U, T) of one utterance's (U, T) probabilities."""
    alpha, rows = first_alignment(1, p.shape[1]).to(p), []
    for row in p:
        alpha = expected_alignment(row.unsqueeze(0), alpha)
        rows.append(alpha[0])
    return torch.stack(rows)


def probabilities(kind: str, frames: int) -> Tensor:
    """(U, T) probabilities of stopping in float32."""
    torch.manual_seed(frames)
    return stopping.probabilities(kind, SYMBOLS, frames)


@pytest.mark.parametrize("kind", KINDS)
def test_alignments_equal_the_double_loop_at_any_length(kind: str) -> None:
    for frames in (1, 2, 10, 100, 1000, 4000):
        p = probabilities(kind, frames)
        found = alignments(p).double().numpy()
        error = np.abs(found - oracle(p.double().numpy())).max()
        assert error < 1e-6, f"T = {frames}: off by {error}"
        assert (found >= 0).all()
        assert (found.sum(1) < 1 + 1e-5).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("frames", "exact"), [(40, differentiable_oracle), (1000, alignments), (4000, alignments)]
)
def test_gradients_equal_those_in_float64_through_the_double_loop_and_over_thousands_of_frames(
    kind: str, frames: int, exact: Callable[[Tensor], Tensor]
) -> None:
    p = probabilities(kind, frames)
    weight = torch.randn(SYMBOLS, frames)
    fast, slow = p.clone().requires_grad_(), p.double().requires_grad_()
    (found,) = torch.autograd.grad(alignments(fast), fast, weight)
    (wanted,) = torch.autograd.grad(exact(slow), slow, weight.double())
    scale = float(wanted.abs().max())
    torch.testing.assert_close(found.double(), wanted, rtol=0, atol=1e-5 * scale)


@pytest.mark.parametrize(
    ("function", "shape"), [(expected_alignment, (2, 6)), (expected_alignments, (2, 3, 6))]
)
def test_gradients_pass_gradcheck_wherever_the_scan_starts(
    function: Callable[..., Tensor], shape: tuple[int, ...]
) -> None:
    torch.manual_seed(0)
    p = torch.rand(shape).double().requires_grad_()
    previous = (torch.rand(2, 6).double() / 6).requires_grad_()
    assert torch.autograd.gradcheck(function, (p, previous))


def test_a_whole_matrix_gives_what_its_rows_give() -> None:
    torch.manual_seed(0)
    p = torch.rand(3, SYMBOLS, 30)
    weight = torch.randn(3, SYMBOLS, 30)
    whole, single = p.clone().requires_grad_(), p.clone().requires_grad_()
    row, rows = first_alignment(3, 30), []
    for i in range(SYMBOLS):
        row = expected_alignment(single[:, i], row)
        rows.append(row)
    found = expected_alignments(whole)
    assert torch.equal(found, torch.stack(rows, 1))
    (at_once,) = torch.autograd.grad(found, whole, weight)
    (by_rows,) = torch.autograd.grad(torch.stack(rows, 1), single, weight)
    torch.testing.assert_close(at_once, by_rows, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("shape", [(2, 0, 5), (2, 3, 0), (0, 3, 5)])
def test_nothing_gives_nothing(shape: tuple[int, int, int]) -> None:
    for form in (nullcontext, plain):
        with form():
            assert expected_alignments(torch.zeros(shape)).shape == shape
    assert expected_alignments(torch.zeros(shape, dtype=torch.bfloat16)).dtype == torch.float32


def test_the_backward_pass_keeps_p_and_q_and_nothing_else() -> None:
    kept: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    p = torch.rand(2, 7, 50).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        expected_alignments(p)
    assert [tensor.shape for tensor in kept] == [p.shape, p.shape]
    assert torch.equal(kept[0], p)


def test_the_first_symbol_starts_from_the_first_frame() -> None:
    assert first_alignment(2, 3).tolist() == [[1, 0, 0], [1, 0, 0]]
    assert expected_alignment(torch.full((1, 3), 0.5), first_alignment(1, 3)).tolist() == [
        [0.5, 0.25, 0.125]
    ]


def test_the_mass_of_a_scan_that_runs_off_the_end_is_missing() -> None:
    p = torch.tensor([[0.1, 0.2, 0.3]])
    alpha = expected_alignment(p, first_alignment(1, 3))
    assert alpha.sum().item() == pytest.approx(1 - 0.9 * 0.8 * 0.7, abs=1e-6)
    assert expected_alignment(torch.zeros(1, 3), first_alignment(1, 3)).sum() == 0


def test_padding_of_p_zero_takes_no_mass_and_changes_nothing_before_it() -> None:
    p, previous = torch.rand(2, 9), torch.rand(2, 9) / 9
    p[0, 5:], previous[0, 5:] = 0, 0
    alpha = expected_alignment(p, previous)
    assert not alpha[0, 5:].any()
    assert torch.equal(alpha[:1, :5], expected_alignment(p[:1, :5], previous[:1, :5]))
    assert torch.equal(alpha[1:], expected_alignment(p[1:], previous[1:]))


def test_strided_input_gives_what_its_copy_gives() -> None:
    p, previous = torch.rand(7, 3).t(), first_alignment(7, 3).t()
    copy = expected_alignment(p.clone(memory_format=torch.contiguous_format), previous.contiguous())
    assert torch.equal(expected_alignment(p, previous), copy)


def test_matrices_of_other_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected p of shape \(B, U, T\), got \(2, 3\)"):
        expected_alignments(torch.zeros(2, 3))
    with pytest.raises(ValueError, match=r"one shape .* got \(2, 4\) .*, \(2, 3\)"):
        expected_alignments(torch.zeros(2, 3, 4), torch.zeros(2, 3))
