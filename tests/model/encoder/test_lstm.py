"""The compiled LSTM of training against torch's."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cortado.model.compiled.operations.lstm import Recurrence
from cortado.model.compiled.product import available
from cortado.model.encoder.conv_lstm import ConvLSTM
from cortado.model.encoder.lstm import LSTM, LSTMState, lstm_cell


def learnt(lstm: LSTM, x: Tensor, wanted: Tensor, narrow: bool) -> list[Tensor]:
    """Return the hidden states and last state, and the gradients in x, in the state, in weights."""
    torch.manual_seed(1)
    state = LSTMState(*torch.randn(2, len(x), lstm.hidden_size))
    leaves = [one.clone().requires_grad_() for one in (x, *state)]
    lstm.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
        y, (hidden, cell) = lstm.step(leaves[0], LSTMState(*leaves[1:]))
    ((y.float() * wanted).sum() + hidden.sum() + cell.square().sum()).backward()
    gradients = [one.grad for one in (*leaves, *lstm.parameters()) if one.grad is not None]
    return [y.float(), hidden, cell, *(one.clone() for one in gradients)]


@pytest.mark.parametrize(
    ("batch", "frames", "width"), [(1, 1, 8), (3, 20, 8), (17, 9, 40), (2, 5, 7)]
)
def test_in_mixed_precision_states_and_gradients_are_nearly_those_of_torch(
    batch: int, frames: int, width: int
) -> None:
    torch.manual_seed(0)
    lstm = LSTM(6, width)
    x, wanted = torch.randn(batch, frames, 6), torch.randn(batch, frames, width)
    exact, rounded = (learnt(lstm, x, wanted, narrow) for narrow in (False, True))
    for one, other in zip(exact, rounded, strict=True):
        assert (other - one).norm() <= 0.02 * one.norm()


def test_in_float32_the_recurrence_is_the_cell_frame_after_frame() -> None:
    torch.manual_seed(0)
    lstm, x, wanted = LSTM(5, 7), torch.randn(3, 11, 5), torch.randn(3, 11, 7)
    w_inputs, w_hidden, *biases = lstm.all_weights[0]
    inputs = (x.transpose(0, 1) @ w_inputs.t() + biases[0] + biases[1]).detach()
    results = []
    for compiled in (True, False):
        given = inputs.clone().requires_grad_()
        torch.manual_seed(2)
        hidden, cell = torch.randn(2, 3, 7)
        start = [hidden.requires_grad_(), cell.requires_grad_()]
        if compiled:
            y, last = Recurrence.apply(given, w_hidden, *start)  # type: ignore[no-untyped-call]
        else:
            state, states = LSTMState(*start), []
            for frame in given.unbind():
                i, f, g, o = (frame + state.hidden @ w_hidden.t()).chunk(4, 1)
                state = lstm_cell(i, f, g, o, state.cell)
                states.append(state.hidden)
            y, last = torch.stack(states), state.cell
        loss = (y.transpose(0, 1) * wanted).sum() + last.square().sum()
        results.append([y, last, *torch.autograd.grad(loss, [given, w_hidden, *start])])
    torch.testing.assert_close(results[0], results[1])
    torch.testing.assert_close(lstm(x), nn.LSTM.forward(lstm, x)[0])


def test_products_are_narrow_where_the_cpu_has_them() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        y = LSTM(4, 8)(torch.randn(2, 3, 4))
    assert y.dtype == (torch.float32 if available() == ("fp32",) else torch.bfloat16)


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("width", [8, 32])
def test_memory_may_hold_anything_before_it_is_written(
    width: int, narrow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    lstm, module = LSTM(6, width), ConvLSTM(2, width, 5)
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
