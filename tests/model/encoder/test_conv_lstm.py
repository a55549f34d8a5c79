"""The convolutional LSTM: its definition by hand, and the compiled one against it."""

from contextlib import nullcontext

import pytest
import torch

from cortado.model.compiled.operations import conv_lstm_dense
from cortado.model.compiled.operations.conv_lstm import Recurrence
from cortado.model.encoder.conv_lstm import WIDTH, ConvLSTM, conv_lstm, neighbourhoods
from cortado.model.encoder.lstm import LSTMState
from cortado.model.operation import definition, plain


def test_a_neighbourhood_is_a_frequency_between_its_neighbours_and_zeros() -> None:
    x = torch.arange(1.0, 7.0).view(3, 2)
    assert neighbourhoods(x).tolist() == [
        [0, 0, 1, 2, 3, 4],
        [1, 2, 3, 4, 5, 6],
        [3, 4, 5, 6, 0, 0],
    ]


def test_the_recurrence_is_that_of_shi_and_others() -> None:
    """One frequency, one channel, two frames, by hand."""
    inputs = torch.tensor([[0.1, 0.2, 0.3, 0.4], [-0.5, 0.6, 0.7, -0.8]])
    weight = torch.zeros(WIDTH, 4)
    weight[1] = torch.tensor([0.9, -0.3, 0.2, 0.5])  # of the frequency itself
    hidden, cell = torch.zeros(1), torch.zeros(1)
    wanted = []
    for gate_inputs in inputs:
        i, f, o, g = gate_inputs + hidden * weight[1]
        cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        hidden = o.sigmoid() * cell.tanh()
        wanted.append(hidden)
    zeros = torch.zeros(1, 1, 1)
    for compute in (conv_lstm, Recurrence.apply, conv_lstm_dense.recurrence):
        found, last = compute(inputs.view(2, 1, 1, 4), weight, zeros, zeros)
        torch.testing.assert_close(found.flatten(), torch.cat(wanted))
        torch.testing.assert_close(last.flatten(), cell)


def test_values_and_gradients_are_those_of_the_definition() -> None:
    torch.manual_seed(0)
    module = ConvLSTM(2, 3, 6)
    state = LSTMState(torch.randn(4, 6, 3), torch.randn(4, 6, 3))
    x, weights = torch.randn(4, 25, 6, 2), (torch.randn(4, 25, 6, 3), torch.randn(4, 6, 3))
    results = []
    for kernels in (nullcontext, plain):
        leaves = [one.clone().requires_grad_() for one in (x, *state)]
        with kernels():
            y, (hidden, cell) = module.step(leaves[0], LSTMState(*leaves[1:]))
        loss = (y * weights[0]).sum() + (cell * weights[1]).sum() + hidden.square().sum()
        results.append([y, hidden, cell])
        results[-1] += torch.autograd.grad(loss, [*leaves, *module.parameters()])
    for found, wanted in zip(*results, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_an_ordinary_lstm_with_a_band_as_its_matrix_does_the_same() -> None:
    """What a GPU runs, here on the CPU, without a rounding that could hide a slip."""
    torch.manual_seed(0)
    frames, batch, frequencies, channels = 9, 4, 6, 3
    given = torch.randn(frames, batch, frequencies, 4 * channels)
    weight = torch.randn(WIDTH * channels, 4 * channels)
    state = torch.randn(2, batch, frequencies, channels)
    weights = torch.randn(frames, batch, frequencies, channels)
    results = []
    for compute in (definition("conv_lstm"), conv_lstm_dense.conv_lstm):
        leaves = [x.double().requires_grad_() for x in (given, weight, *state)]
        hiddens, cell = compute(*leaves)
        loss = (hiddens * weights).sum() + cell.square().sum()
        results.append([hiddens, cell, *torch.autograd.grad(loss, leaves)])
    for found, wanted in zip(*results, strict=True):
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("channels", [3, 8])
def test_mixed_precision_multiplies_in_bf16_and_sums_in_float32(channels: int) -> None:
    torch.manual_seed(0)
    module = ConvLSTM(2, channels, 6)
    x, weight = torch.randn(5, 40, 6, 2), torch.randn(5, 40, 6, channels)
    found = []
    for narrow in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            y = module(x)
        assert y.dtype == torch.float32
        gradients = torch.autograd.grad(y, (module.recurrent, module.input.weight), weight)
        assert gradients[0].dtype == torch.float32
        found.append((y, *gradients))
    for exact, rounded in zip(*found, strict=True):
        assert (rounded - exact).norm() < 0.02 * exact.norm()
        assert not torch.equal(rounded, exact)


def test_forget_gates_start_open() -> None:
    assert ConvLSTM(2, 3, 5).input.bias[3:6].tolist() == [1, 1, 1]
