"""Products with one matrix that a decoder uses at every symbol.

Autograd would compute the matrix's gradient at every symbol and add them: U passes over a tensor of
its size. Here the factors are stored and the sum is one product at the end.
"""

from typing import Any

import torch
from torch import Tensor

from cortado.model.attention.gathered import Gathered

Factors = Gathered[tuple[Tensor, Tensor]]  # of the matrix's gradient, a pair for each product


class _Share(torch.autograd.Function):
    """The identity on the matrix; its backward pass returns the sum of all products' gradients."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, factors: Factors) -> Tensor:
        ctx.factors = factors
        ctx.set_materialize_grads(False)
        return matrix.view_as(matrix)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, None]:
        pairs = ctx.factors.take()
        if not pairs:
            return None, None
        left, grad = (torch.cat(each, -2) for each in zip(*pairs, strict=True))
        return left.transpose(-1, -2) @ grad, None


class _Product(torch.autograd.Function):
    """x @ matrix; its gradient in the matrix is computed by `_Share`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor, factors: Factors) -> Tensor:
        ctx.save_for_backward(x, matrix)
        ctx.factors = factors
        return x @ matrix

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        x, matrix = ctx.saved_tensors
        left, grad = x.to(matrix), grads[0].to(matrix)  # autocast had the product in bf16
        if ctx.needs_input_grad[1]:
            ctx.factors.parts().append((left, grad))
        return (grad @ matrix.transpose(-1, -2)).to(x), None, None


class SharedMatrix:
    """A matrix (..., K, N) that many (..., M, K) are multiplied with before one backward pass."""

    def __init__(self, matrix: Tensor) -> None:
        """Take the matrix, a parameter or not."""
        self._factors = Factors()
        self._matrix: Tensor = _Share.apply(matrix, self._factors)  # type: ignore[no-untyped-call]

    def multiply(self, x: Tensor) -> Tensor:
        """Return the (..., M, N) product of a (..., M, K) and the matrix."""
        return _Product.apply(x, self._matrix, self._factors)  # type: ignore[no-untyped-call]
