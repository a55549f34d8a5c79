"""The hand-written recurrence against autograd of its steps."""

import pytest
import torch
from torch import Tensor

from cortado.model.encoder.conv_lstm import (
    WIDTH,
    ConvLSTM,
    ConvLSTMState,
    Recurrence,
    neighbourhoods,
)


def stepwise(module: ConvLSTM, x: Tensor) -> Tensor:
    state = module.initial_state(len(x), x.shape[2])
    outputs = []
    for frame in x.unbind(1):
        y, state = module.step(frame, state)
        outputs.append(y)
    return torch.stack(outputs, 1)


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
    found = Recurrence.apply(inputs.view(2, 1, 1, 4), weight)  # type: ignore[no-untyped-call]
    torch.testing.assert_close(found.flatten(), torch.cat(wanted))


def test_values_and_gradients_equal_autograd_of_the_steps() -> None:
    torch.manual_seed(0)
    module = ConvLSTM(2, 3)
    weight = torch.randn(4, 25, 6, 3)
    results = []
    for run in (module, lambda x: stepwise(module, x)):
        x = torch.randn(4, 25, 6, 2, generator=torch.Generator().manual_seed(1)).requires_grad_()
        y = run(x)
        wanted = [x, *module.parameters()]
        results.append([y, *torch.autograd.grad((y * weight).sum(), wanted)])
    for found, oracle in zip(*results, strict=True):
        torch.testing.assert_close(found, oracle, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("channels", [3, 8])
def test_mixed_precision_multiplies_in_bf16_and_sums_in_float32(channels: int) -> None:
    torch.manual_seed(0)
    module = ConvLSTM(2, channels)
    x, weight = torch.randn(5, 40, 6, 2), torch.randn(5, 40, 6, channels)
    found = []
    for narrow in (False, True):
        module.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            y = module(x)
        assert y.dtype == torch.float32
        (y * weight).sum().backward()
        assert module.recurrent.grad is not None
        assert module.recurrent.grad.dtype == torch.float32
        found.append((y, module.recurrent.grad, module.input.weight.grad))
    for exact, rounded in zip(*found, strict=True):
        assert (rounded - exact).norm() < 0.02 * exact.norm()
        assert not torch.equal(rounded, exact)


def test_forget_gates_start_open() -> None:
    assert ConvLSTM(2, 3).input.bias[3:6].tolist() == [1, 1, 1]


def test_a_state_begins_at_zero() -> None:
    state = ConvLSTM(2, 3).initial_state(2, 5)
    assert isinstance(state, ConvLSTMState)
    assert state.hidden.shape == state.cell.shape == (2, 5, 3)
    assert not state.hidden.any()
    assert not state.cell.any()
