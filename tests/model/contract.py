"""The streaming contract (cortado/model/layer.py), which every layer is held to.

Time is on dim 1. Chunks are cut in blocks, and any number of them is one step.
"""

from collections.abc import Sequence
from itertools import cycle
from typing import Any, TypeVar

import pytest
import torch
from torch import Tensor, nn

from cortado.model.layer import Layer, put, select, tensors

RELATIVE, ABSOLUTE = 1e-4, 2e-5  # float32, whose sums differ with the shapes

Module = TypeVar("Module", bound=nn.Module)


def randomised(module: Module) -> Module:
    """Return the module in serving, its batch norms as those of a trained one."""
    with torch.no_grad():
        for part in module.modules():
            if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
                assert part.running_mean is not None
                assert part.running_var is not None
                part.running_mean.normal_(0, 0.3)
                part.running_var.uniform_(0.3, 2)
                part.weight.uniform_(0.5, 1.5)
                part.bias.normal_(0, 0.3)
    return module.eval()


def close(one: Tensor, other: Tensor) -> None:
    scale = float(other.detach().abs().max()) if other.numel() else 0.0
    torch.testing.assert_close(one, other, rtol=RELATIVE, atol=ABSOLUTE * max(1.0, scale))


def streamed(layer: Layer, x: Tensor, cuts: Sequence[int]) -> tuple[Tensor, Any]:
    """Return the outputs of x in chunks of `cuts` blocks, over and over, and the last state."""
    state, outputs, start = layer.initial_state(len(x)), [], 0
    for blocks in cycle(cuts):
        stop = start + blocks * layer.ratio
        y, state = layer.step(x[:, start:stop], state)
        outputs.append(y)
        start = stop
        if start >= x.shape[1]:
            return torch.cat(outputs, 1), state
    raise AssertionError("cuts are positive")


def verify_contract(layer: Layer, x: Tensor) -> None:
    """Check each clause that no chunking matters to, on (B, T, ...) input of whole blocks."""
    later_input_never_changes_earlier_output(layer, x)
    padding_never_leaks(layer, x)
    states_are_values(layer, x)
    a_part_of_a_block_is_refused(layer, x)


def verify_chunks(layer: Layer, x: Tensor, cuts: Sequence[int]) -> None:
    """Check the other clauses, for chunks of `cuts` blocks.

    Gradients are those of layers whose output has them; symbols, which have none, are compared
    exactly.
    """
    any_chunking_is_the_whole(layer, x, cuts)
    a_batch_is_each_stream_alone(layer, x, cuts)
    a_fresh_state_is_a_reset(layer, x, cuts)


def any_chunking_is_the_whole(layer: Layer, x: Tensor, cuts: Sequence[int]) -> None:
    one, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    whole, (pieces, _) = layer(one), streamed(layer, other, cuts)
    assert whole.shape[1] == x.shape[1] // layer.ratio
    close(pieces, whole)
    if not whole.requires_grad:
        return
    weight = torch.randn_like(whole)
    (wanted,) = torch.autograd.grad(whole, one, weight)
    (found,) = torch.autograd.grad(pieces, other, weight)
    assert wanted.abs().sum() > 0
    close(found, wanted)


def a_batch_is_each_stream_alone(layer: Layer, x: Tensor, cuts: Sequence[int]) -> None:
    together, whole = streamed(layer, x, cuts)[0], layer(x)
    for row in range(len(x)):
        close(together[row : row + 1], streamed(layer, x[row : row + 1], cuts)[0])
        close(whole[row : row + 1], layer(x[row : row + 1]))


def later_input_never_changes_earlier_output(layer: Layer, x: Tensor) -> None:
    x = x.clone().requires_grad_()
    y = layer(x)
    for k in {0, y.shape[1] // 2, y.shape[1] - 1}:
        end = layer.ratio * (k + 1)
        if y.requires_grad:
            (grad,) = torch.autograd.grad(y[:, k].square().sum(), x, retain_graph=True)
            assert not grad[:, end:].any()
            assert grad[:, end - layer.ratio : end].any()  # and it does rest on the newest input
        else:
            later = x.detach().clone()
            later[:, end:] = torch.randn_like(later[:, end:])
            assert torch.equal(layer(later)[:, : k + 1], y[:, : k + 1])


def padding_never_leaks(layer: Layer, x: Tensor) -> None:
    length = x.shape[1] // layer.ratio // 2  # of the first stream, which is padded
    end = length * layer.ratio
    padded = x.clone()
    padded[0, end:] = 0
    junk = padded.clone()
    junk[0, end:] = 100 * torch.randn_like(junk[0, end:])
    clean, dirty = layer(padded), layer(junk)
    close(dirty[0, :length], clean[0, :length])
    close(dirty[1:], clean[1:])
    close(clean[:1, :length], layer(x[:1, :end]))


def a_fresh_state_is_a_reset(layer: Layer, x: Tensor, cuts: Sequence[int]) -> None:
    first, used = streamed(layer, x, cuts)
    again, _ = streamed(layer, x, cuts)
    assert torch.equal(first, again)  # nothing is hidden on the module
    chunk = x[:, : layer.ratio]
    y, _ = layer.step(chunk, put(used, [0], layer.initial_state(1)))
    close(y[:1], first[:1, :1])
    close(y[1:], layer.step(chunk, used)[0][1:])
    assert all(len(part) == 1 for part in tensors(select(used, [len(x) - 1])))


def states_are_values(layer: Layer, x: Tensor) -> None:
    state = layer.initial_state(len(x))
    for chunk in x[:, : 2 * layer.ratio].split(layer.ratio, 1):
        before, heard = [t.clone() for t in tensors(state)], chunk.clone()
        _, new = layer.step(chunk, state)
        assert all(map(torch.equal, tensors(state), before))
        assert torch.equal(chunk, heard)
        assert [t.shape for t in tensors(new)] == [t.shape for t in before]
        assert all(len(t) == len(x) for t in tensors(new))
        state = new


def a_part_of_a_block_is_refused(layer: Layer, x: Tensor) -> None:
    if layer.ratio == 1:
        return
    state = layer.initial_state(len(x))
    with pytest.raises(ValueError, match=f"expected a multiple of {layer.ratio} frames, got "):
        layer.step(x[:, : layer.ratio - 1], state)
