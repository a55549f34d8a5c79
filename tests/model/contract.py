"""The one streaming contract: what every layer, and the whole recogniser, promises of streams.

Time is on dim 1 here. Output frame k rests on the input up to frame `granule * (k + 1) - 1` and on
none after it; seen from the frame that it describes, that is the layer's look-ahead.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import torch
from torch import Tensor, nn

from cortado.model.backends.reference import put, select

RELATIVE, ABSOLUTE = 1e-4, 2e-5  # float32, whose sums differ with the shapes


@dataclass(frozen=True)
class Layer:
    """A layer's two executions."""

    forward: Callable[[Tensor], Tensor]  # (B, T, ...) -> (B, T / granule, ...)
    step: Callable[[Tensor, Any], tuple[Tensor, Any]]  # any multiple of `granule` frames
    initial_state: Callable[[int], Any]
    granule: int = 1  # input frames of one output frame


def framewise(step: Callable[[Tensor, Any], tuple[Tensor, Any]], granule: int) -> Any:
    """Return a step over any number of granules from one that takes exactly one granule."""

    def steps(x: Tensor, state: Any) -> tuple[Tensor, Any]:
        outputs = []
        for piece in x.split(granule, 1):
            y, state = step(piece, state)
            outputs.append(y)
        return torch.stack(outputs, 1), state

    return steps


def randomised(module: nn.Module) -> nn.Module:
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


def tensors(state: Any) -> list[Tensor]:
    """Return the tensors of a nested state."""
    return [state] if isinstance(state, Tensor) else [t for part in state for t in tensors(part)]


def streamed(layer: Layer, x: Tensor, cuts: Sequence[int]) -> tuple[Tensor, Any]:
    """Return the outputs of x in chunks of `cuts` granules, over and over, and the last state."""
    state, outputs, start = layer.initial_state(len(x)), [], 0
    for granules in cycle(cuts):
        stop = start + granules * layer.granule
        y, state = layer.step(x[:, start:stop], state)
        outputs.append(y)
        start = stop
        if start >= x.shape[1]:
            return torch.cat(outputs, 1), state
    raise AssertionError("cuts are positive")


def check(layer: Layer, x: Tensor, cuts: Sequence[int]) -> None:
    """Check every clause of the contract on (B, T, ...) input, T a multiple of the granule."""
    any_chunking_is_the_whole(layer, x, cuts)
    a_batch_is_each_stream_alone(layer, x, cuts)
    later_input_never_changes_earlier_output(layer, x)
    padding_never_leaks(layer, x)
    a_fresh_state_is_a_reset(layer, x, cuts)
    states_are_values(layer, x)


def any_chunking_is_the_whole(layer: Layer, x: Tensor, cuts: Sequence[int]) -> None:
    one, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    whole, (pieces, _) = layer.forward(one), streamed(layer, other, cuts)
    assert whole.shape[1] == x.shape[1] // layer.granule
    close(pieces, whole)
    weight = torch.randn_like(whole)
    (whole * weight).sum().backward()
    (pieces * weight).sum().backward()
    assert one.grad is not None
    assert other.grad is not None
    assert one.grad.abs().sum() > 0
    close(other.grad, one.grad)


def a_batch_is_each_stream_alone(layer: Layer, x: Tensor, cuts: Sequence[int]) -> None:
    together = streamed(layer, x, cuts)[0]
    whole = layer.forward(x)
    for row in range(len(x)):
        close(together[row : row + 1], streamed(layer, x[row : row + 1], cuts)[0])
        close(whole[row : row + 1], layer.forward(x[row : row + 1]))


def later_input_never_changes_earlier_output(layer: Layer, x: Tensor) -> None:
    x = x.clone().requires_grad_()
    y = layer.forward(x)
    for k in {0, y.shape[1] // 2, y.shape[1] - 1}:
        (grad,) = torch.autograd.grad(y[:, k].square().sum(), x, retain_graph=True)
        end = layer.granule * (k + 1)
        assert not grad[:, end:].any()
        assert grad[:, end - layer.granule : end].any()  # and it does rest on the newest input


def padding_never_leaks(layer: Layer, x: Tensor) -> None:
    length = x.shape[1] // layer.granule // 2  # of the first stream, which is padded
    padded = x.clone()
    padded[0, length * layer.granule :] = 0
    junk = padded.clone()
    junk[0, length * layer.granule :] = 100 * torch.randn_like(junk[0, length * layer.granule :])
    clean, dirty = layer.forward(padded), layer.forward(junk)
    close(dirty[0, :length], clean[0, :length])
    close(dirty[1:], clean[1:])
    alone = layer.forward(x[:1, : length * layer.granule])
    close(clean[:1, :length], alone)


def a_fresh_state_is_a_reset(layer: Layer, x: Tensor, cuts: Sequence[int]) -> None:
    first, used = streamed(layer, x, cuts)
    again, _ = streamed(layer, x, cuts)
    assert torch.equal(first, again)  # nothing is hidden on the module
    chunk = x[:, : layer.granule]
    reset = put(nested(used), [0], nested(layer.initial_state(1)))
    y, _ = layer.step(chunk, bare(reset))
    close(y[:1], first[:1, :1])
    went_on, _ = layer.step(chunk, used)
    close(y[1:], went_on[1:])
    (kept,) = select(nested(used), [len(x) - 1])
    assert all(len(part) == 1 for part in tensors(kept))


def states_are_values(layer: Layer, x: Tensor) -> None:
    state = layer.initial_state(len(x))
    for chunk in (x[:, : layer.granule], x[:, layer.granule : 2 * layer.granule]):
        before = [t.clone() for t in tensors(state)]
        heard = chunk.clone()
        _, new = layer.step(chunk, state)
        assert all(map(torch.equal, tensors(state), before))
        assert torch.equal(chunk, heard)
        assert [t.shape for t in tensors(new)] == [t.shape for t in before]
        assert all(len(t) == len(x) for t in tensors(new))
        state = new


def nested(state: Any) -> tuple[Any, ...]:
    """Return a state as a tuple, so that one that is a bare tensor can be selected from too."""
    return (state,)


def bare(state: tuple[Any, ...]) -> Any:
    return state[0]
