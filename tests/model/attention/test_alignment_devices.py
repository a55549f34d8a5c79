"""The forms for other devices against the compiled loops, which the oracle has judged.

The Triton kernels run in Triton's interpreter, and on a GPU where there is one.
"""

from collections.abc import Callable, Iterator
from types import ModuleType

import pytest
import torch
from torch import Tensor

import cortado.model.compiled.operations  # noqa: F401
from cortado.model.attention.expected_alignment import expected_alignment, expected_alignments
from cortado.model.attention.scan import reverse_scan, scan, shifted
from cortado.model.operation import definition
from cortado.tests import needs
from cortado.tests.model.attention.stopping import probabilities
from cortado.tests.model.interpreted import interpreted

FRAMES = [1, 2, 10, 33, 100, 1000]
KINDS = ["near 0", "near 1", "mixed", "exactly 0 and 1", "r = -4", "r = 4"]


def drawn(kind: str, frames: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """p, previous and a gradient, each (2, T)."""
    torch.manual_seed(frames)
    p = probabilities(kind, 2, frames)
    previous = torch.rand(2, frames) / frames
    return p.to(dtype), previous.to(dtype), torch.randn(2, frames).to(dtype)


Rows = Callable[..., tuple[Tensor, Tensor]]


def by_definition(name: str) -> Rows:
    """An operation's plain tensor code, of one row."""

    def run(first: Tensor, *others: Tensor) -> tuple[Tensor, Tensor]:
        rest = [x.unsqueeze(1) if name.endswith("backward") else x for x in others]
        one, other = definition(name)(first.unsqueeze(1), *rest)
        return one.squeeze(1), other.squeeze(1) if other.dim() > 2 else other

    return run


SCAN = by_definition("expected_alignment"), by_definition("expected_alignment_backward")


def same(kernels: tuple[Rows, Rows], kind: str, frames: int, dtype: torch.dtype) -> None:
    """Check one row, forward and backward, against the compiled loops."""
    p, previous, grad = drawn(kind, frames, dtype)
    slow = p.clone().requires_grad_(), previous.clone().requires_grad_()
    wanted = expected_alignment(*slow)
    (wanted * grad).sum().backward()
    q, alpha = kernels[0](p, previous)
    grad_p, grad_previous = kernels[1](p, q, grad)
    tight = 1e-6 if dtype == torch.float32 else 1e-14
    torch.testing.assert_close(alpha, wanted.detach(), rtol=0, atol=tight)
    for found, reference in ((grad_p, slow[0].grad), (grad_previous, slow[1].grad)):
        assert reference is not None
        scale = float(reference.abs().max())
        torch.testing.assert_close(found, reference, rtol=0, atol=10 * tight * scale)


cases = pytest.mark.parametrize(
    ("kind", "dtype"), [*((kind, torch.float32) for kind in KINDS), ("r = -4", torch.float64)]
)


@pytest.fixture(scope="module")
def kernels() -> Iterator[ModuleType]:
    """The kernels' module as Triton's interpreter reads it."""
    with interpreted("alignment_triton") as module:
        yield module


@cases
def test_the_scan_in_tensor_operations_equals_the_loops(kind: str, dtype: torch.dtype) -> None:
    for frames in [*FRAMES, 4000]:
        same(SCAN, kind, frames, dtype)


@cases
def test_the_triton_kernels_equal_the_loops(
    kernels: ModuleType, kind: str, dtype: torch.dtype
) -> None:
    long = (kind, dtype) == ("r = -4", torch.float32)  # once: the interpreter takes its time
    for frames in FRAMES if long else FRAMES[:-1]:
        same((kernels.forward_row, kernels.backward_row), kind, frames, dtype)


@needs.gpu
@pytest.mark.parametrize("frames", [*FRAMES, 9000])
def test_a_gpu_gives_what_the_cpu_gives(frames: int) -> None:
    torch.manual_seed(0)
    p, weight = (torch.randn(4, 5, frames) - 2).sigmoid(), torch.randn(4, 5, frames)
    results = []
    for device in ("cpu", "cuda"):
        leaf = p.detach().to(device).requires_grad_()
        alpha = expected_alignments(leaf)
        (gradient,) = torch.autograd.grad(alpha, leaf, weight.to(device))
        results.append((alpha.detach().cpu(), gradient.cpu()))
    torch.testing.assert_close(results[1][0], results[0][0], rtol=0, atol=1e-6)
    torch.testing.assert_close(results[1][1], results[0][1], rtol=1e-5, atol=1e-5)


def test_a_scan_is_the_recurrence() -> None:
    gates, values = torch.rand(3, 21).double(), torch.randn(3, 21).double()
    y, wanted = torch.zeros(3).double(), []
    for j in range(21):
        y = gates[:, j] * y + values[:, j]
        wanted.append(y)
    torch.testing.assert_close(scan(gates, values), torch.stack(wanted, 1))
    backwards = reverse_scan(gates.flip(1), values.flip(1))
    torch.testing.assert_close(backwards.flip(1), torch.stack(wanted, 1))


def test_shifting_fills_what_is_left() -> None:
    x = torch.tensor([1.0, 2.0, 3.0])
    assert shifted(x, 1).tolist() == [0, 1, 2]
    assert shifted(x, -2, 9.0).tolist() == [3, 9, 9]
