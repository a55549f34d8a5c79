"""The compiled LSTM of training against torch's."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cortado.model.compiled.product import available
from cortado.model.encoder.conv_lstm import ConvLSTM
from cortado.model.encoder.lstm import Recurrence, hidden_states

WEIGHTS = ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"]


def learnt(lstm: nn.LSTM, x: Tensor, wanted: Tensor, narrow: bool) -> list[Tensor]:
    """Return the hidden states, and the gradients in x and in the weights."""
    x = x.clone().requires_grad_()
    lstm.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
        y = hidden_states(x, lstm.all_weights[0])
    (y.float() * wanted).sum().backward()
    return [y.float(), x.grad, *(getattr(lstm, name).grad.clone() for name in WEIGHTS)]


@pytest.mark.parametrize(
    ("batch", "frames", "width"), [(1, 1, 8), (3, 20, 8), (17, 9, 40), (2, 5, 7)]
)
def test_in_mixed_precision_states_and_gradients_are_nearly_those_of_torch(
    batch: int, frames: int, width: int
) -> None:
    torch.manual_seed(0)
    lstm = nn.LSTM(6, width, batch_first=True)
    x, wanted = torch.randn(batch, frames, 6), torch.randn(batch, frames, width)
    exact, rounded = (learnt(lstm, x, wanted, narrow) for narrow in (False, True))
    torch.testing.assert_close(exact[0], lstm(x)[0])
    for one, other in zip(exact, rounded, strict=True):
        assert (other - one).norm() <= 0.02 * one.norm()


def test_in_float32_the_recurrence_is_that_of_torch() -> None:
    torch.manual_seed(0)
    lstm = nn.LSTM(5, 7, batch_first=True)
    x, wanted = torch.randn(3, 11, 5), torch.randn(3, 11, 7)
    exact = learnt(lstm, x, wanted, narrow=False)
    w_inputs, w_hidden, *biases = (
        weight.detach().requires_grad_() for weight in lstm.all_weights[0]
    )
    inputs = x.transpose(0, 1) @ w_inputs.t() + biases[0] + biases[1]
    y: Tensor = Recurrence.apply(inputs, w_hidden).transpose(0, 1)  # type: ignore[no-untyped-call]
    torch.testing.assert_close(y, exact[0])
    found = torch.autograd.grad((y * wanted).sum(), [w_inputs, w_hidden, *biases])
    torch.testing.assert_close(list(found), exact[2:])


def test_products_are_narrow_where_the_cpu_has_them() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        y = hidden_states(torch.randn(2, 3, 4), nn.LSTM(4, 8).all_weights[0])
    assert y.dtype == (torch.float32 if available() == ("fp32",) else torch.bfloat16)


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("width", [8, 32])
def test_memory_may_hold_anything_before_it_is_written(
    width: int, narrow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    lstm, module = nn.LSTM(6, width, batch_first=True), ConvLSTM(2, width)
    x, wanted = torch.randn(3, 4, 6), torch.randn(3, 4, width)
    spectra = torch.randn(3, 4, 5, 2)

    def all_results() -> list[Tensor]:
        module.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            y = module(spectra)
        y.square().sum().backward()
        gradients = [p.grad.clone() for p in module.parameters() if p.grad is not None]
        return [y, *gradients, *learnt(lstm, x, wanted, narrow)]

    def poisoned(shape: Any, dtype: Any = float, order: Any = "C") -> NDArray[Any]:
        floating = np.issubdtype(np.dtype(dtype), np.floating)
        return np.full(shape, np.nan if floating else np.iinfo(dtype).max, dtype, order)

    expected = all_results()
    monkeypatch.setattr(np, "empty", poisoned)
    monkeypatch.setattr(np, "empty_like", lambda x: poisoned(x.shape, x.dtype))
    for found, one in zip(all_results(), expected, strict=True):
        assert torch.equal(found, one)
