"""Dropout against what it is meant to do."""

import pytest
import torch

from cortado.model.encoder.dropout import Dropout


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_a_share_is_left_out_and_the_rest_makes_up_for_it(share: float, kind: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.ones(37, 1001, dtype=kind, requires_grad=True)
    y = Dropout(share)(x)
    assert y.dtype == kind
    assert (y == 0).float().mean().item() == pytest.approx(share, abs=0.01)
    assert y.float().mean().item() == pytest.approx(1, abs=0.01)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(gradient, y.detach())
    assert not torch.equal(Dropout(share)(x), y)


def test_nothing_is_left_out_in_serving_or_without_a_share() -> None:
    x = torch.randn(3, 5)
    assert Dropout(0.3).eval()(x) is x
    assert Dropout(0.0)(x) is x
