"""The inputs of the expected alignment, chunk and span are checked alike."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import cortado.model.compiled.operations  # noqa: F401
from cortado.model.attention.expected_alignment import expected_alignment
from cortado.model.attention.expected_chunk import expected_chunk
from cortado.model.attention.expected_span import expected_span

FUNCTIONS: list[tuple[int, Callable[..., Tensor]]] = [  # the number of inputs, and the function
    (2, expected_alignment),
    (2, lambda alpha, energies: expected_chunk(alpha, energies, 4)),
    (3, lambda *inputs: expected_span(*inputs)[1]),
]


@pytest.mark.parametrize(("count", "function"), FUNCTIONS)
@pytest.mark.parametrize(
    ("first", "last", "message"),
    [
        (torch.zeros(2, 3), torch.zeros(2, 4), r"one shape .* got \(2, 3\) .*, \(2, 4\)"),
        (torch.zeros(3), torch.zeros(3), r"of one shape \(B, T\)"),
        (torch.zeros(1, 3), torch.zeros(1, 3).double(), r"got .*float32 .*float64"),
        (torch.zeros(1, 3).int(), torch.zeros(1, 3).int(), r"expected float64, .* got .*int32"),
        (torch.zeros(1, 3), torch.zeros(1, 3, device="meta"), r"device, got .* cpu, .* meta"),
    ],
)
def test_inputs_of_other_shapes_types_and_devices_are_refused(
    first: Tensor, last: Tensor, message: str, count: int, function: Callable[..., Tensor]
) -> None:
    with pytest.raises(ValueError, match=message):
        function(*[first] * (count - 1), last)


@pytest.mark.parametrize(("count", "function"), FUNCTIONS)
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_half_precision_is_accumulated_in_float32(
    kind: torch.dtype, count: int, function: Callable[..., Tensor]
) -> None:
    torch.manual_seed(0)
    inputs = [torch.rand(2, 40).to(kind) / 40 for _ in range(count)]
    first = inputs[0].clone().requires_grad_()
    found = function(first, *inputs[1:])
    assert found.dtype == torch.float32
    assert torch.equal(found, function(*(x.float() for x in inputs)))
    assert torch.equal(found, function(first, *(x.float() for x in inputs[1:])))
    (gradient,) = torch.autograd.grad(found.sum(), first)
    assert gradient.dtype == kind
