"""Products with a shared matrix against plain ones, in values and gradients."""

import pytest
import torch
from torch import Tensor

from cortado.model.attention.shared_matmul import SharedMatrix

SHAPES = [((4, 3), (2, 4)), ((2, 4, 3), (2, 1, 4))]  # of the matrix, of what it multiplies


@pytest.mark.parametrize(("matrix_shape", "shape"), SHAPES)
@pytest.mark.parametrize("used", [[True] * 3, [True, False, True], [False] * 3])
def test_products_and_gradients_are_those_of_plain_products(
    matrix_shape: tuple[int, ...], shape: tuple[int, ...], used: list[bool]
) -> None:
    torch.manual_seed(0)
    matrix, inputs = torch.randn(matrix_shape), torch.randn(3, *shape)
    results = []
    for shared in (True, False):
        leaves = [matrix.clone().requires_grad_(), inputs.clone().requires_grad_()]
        multiply = SharedMatrix(leaves[0]).multiply if shared else lambda x, m=leaves[0]: x @ m
        products: list[Tensor] = [multiply(x) for x in leaves[1]]
        counted = [p.square().sum() for p, counts in zip(products, used, strict=True) if counts]
        loss = sum(counted, (leaves[0].sum() + leaves[1].sum()) * 0)
        results.append([*products, *torch.autograd.grad(loss, leaves)])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


def test_a_product_of_a_product_gets_its_gradient_in_full() -> None:
    torch.manual_seed(0)
    matrix = torch.randn(3, 3).double().requires_grad_()

    def power(matrix: Tensor, x: Tensor) -> Tensor:
        shared = SharedMatrix(matrix)
        return shared.multiply(shared.multiply(shared.multiply(x)).tanh())

    x = torch.randn(2, 3).double().requires_grad_()
    assert torch.autograd.gradcheck(power, (matrix, x))


def test_a_frozen_matrix_still_passes_gradients_on() -> None:
    matrix, x = torch.randn(3, 2), torch.randn(4, 3, requires_grad=True)
    (gradient,) = torch.autograd.grad(SharedMatrix(matrix).multiply(x).sum(), x)
    torch.testing.assert_close(gradient, matrix.sum(1).expand(4, 3))
