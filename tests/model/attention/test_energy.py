"""The compiled energy kernel against tensor operations in float64."""

import copy

import pytest
import torch
from torch import Tensor

import cortado.model.compiled.operations  # noqa: F401
from cortado.model.attention.energy import AdditiveEnergy

BATCH, FRAMES, SYMBOLS = 3, 11, 4
QUERY, KEY, WIDTH = 5, 7, 6


def energies(module: AdditiveEnergy, queries: Tensor, values: Tensor, direct: bool) -> list[Tensor]:
    """The energies of each symbol over one set of keys, and the keys where they are used too."""
    keys = module.keys(values)
    found = [module(query, keys) for query in queries]
    return [*found, keys.projected.square().sum(2)] if direct else found


@pytest.fixture
def module() -> AdditiveEnergy:
    torch.manual_seed(0)
    module = AdditiveEnergy(QUERY, KEY, WIDTH, -1.0)
    with torch.no_grad():
        module.scale.fill_(3.0)
    return module


def compare(
    module: AdditiveEnergy, used: list[bool], direct: bool = False, spread: float = 1.0
) -> None:
    """Compare values and all gradients, of a loss that counts the symbols that are `used`."""
    torch.manual_seed(1)
    queries, values = spread * torch.randn(SYMBOLS, BATCH, QUERY), torch.randn(BATCH, FRAMES, KEY)
    weights = torch.randn(SYMBOLS + 1, BATCH, FRAMES)
    results = []
    for kind in (torch.float32, torch.float64):
        twin = copy.deepcopy(module).to(kind)
        leaves = [queries.to(kind).requires_grad_(), values.to(kind).requires_grad_()]
        found = energies(twin, leaves[0], leaves[1], direct)
        parts = zip(found, weights.to(kind), [*used, True], strict=False)
        loss = sum(((e * w).sum() for e, w, counts in parts if counts), leaves[1].sum() * 0)
        wanted = [*leaves, *twin.parameters()]
        grads = torch.autograd.grad(loss, wanted, allow_unused=True, materialize_grads=True)
        results.append([*found, *grads])
    for fast, slow in zip(*results, strict=True):
        scale = max(1.0, slow.detach().abs().max().item())
        torch.testing.assert_close(fast.double(), slow, rtol=1e-5, atol=5e-6 * scale)


@pytest.mark.parametrize("spread", [0.1, 1.0, 30.0])
def test_values_and_gradients_equal_those_in_float64(module: AdditiveEnergy, spread: float) -> None:
    compare(module, [True] * SYMBOLS, spread=spread)


@pytest.mark.parametrize("used", [[True, False, False, True], [False] * 3 + [True], [False] * 4])
def test_symbols_without_a_gradient_count_nothing(module: AdditiveEnergy, used: list[bool]) -> None:
    compare(module, used)


@pytest.mark.parametrize("used", [[True] * 4, [False] * 4, [True, False, True, False]])
def test_keys_with_another_use_get_both_gradients(module: AdditiveEnergy, used: list[bool]) -> None:
    compare(module, used, direct=True)


def test_a_second_pass_counts_nothing_of_the_first(module: AdditiveEnergy) -> None:
    torch.manual_seed(1)
    queries, values = torch.randn(SYMBOLS, BATCH, QUERY), torch.randn(BATCH, FRAMES, KEY)
    grads = list[Tensor]()
    for _ in range(2):
        total = torch.stack(energies(module, queries, values, False)).square().sum()
        grads += torch.autograd.grad(total, module.key.weight)
    assert torch.equal(*grads)


def test_a_pass_that_ends_before_the_keys_leaves_nothing_for_the_next(
    module: AdditiveEnergy,
) -> None:
    torch.manual_seed(1)
    queries, values = torch.randn(SYMBOLS, BATCH, QUERY), torch.randn(BATCH, FRAMES, KEY)
    queries.requires_grad_()
    total = torch.stack(energies(module, queries, values, False)).square().sum()
    wanted = [module.query.weight, module.key.weight]
    first = torch.autograd.grad(total, wanted, retain_graph=True)
    torch.autograd.grad(total, queries, retain_graph=True)
    assert all(map(torch.equal, first, torch.autograd.grad(total, wanted)))


def test_second_derivatives_are_refused(module: AdditiveEnergy) -> None:
    queries, values = torch.randn(SYMBOLS, BATCH, QUERY), torch.randn(BATCH, FRAMES, KEY)
    total = torch.stack(energies(module, queries, values, False)).square().sum()
    with pytest.raises(RuntimeError, match="expected a backward pass without create_graph"):
        torch.autograd.grad(total, module.key.weight, create_graph=True)


def test_serving_sees_the_energies_of_training(module: AdditiveEnergy) -> None:
    torch.manual_seed(1)
    query, values = torch.randn(BATCH, QUERY), torch.randn(BATCH, FRAMES, KEY)
    trained = module(query, module.keys(values))
    torch.testing.assert_close(module.at(query, module.key(values)), trained)


def test_an_energy_is_the_formula_of_raffel_and_others(module: AdditiveEnergy) -> None:
    """g * v'/||v|| tanh(W_s s + W_h h + b) + r, for one query and one frame."""
    torch.manual_seed(1)
    query, value = torch.randn(1, QUERY), torch.randn(1, 1, KEY)
    hidden = module.query.weight @ query[0] + module.key.weight @ value[0, 0]
    inner = (hidden + module.key.bias).tanh()
    v = module.direction
    wanted = module.scale * (v @ inner) / (v @ v).sqrt() + module.bias
    found = module(query, module.keys(value))
    torch.testing.assert_close(found[0, 0], wanted)


def test_energies_begin_at_the_scale_and_bias_of_the_paper() -> None:
    module = AdditiveEnergy(QUERY, KEY, 16, -4.0)
    assert module.scale.item() == 0.25
    assert module.bias.item() == -4.0
    assert module.unit().norm().item() == pytest.approx(0.25)
