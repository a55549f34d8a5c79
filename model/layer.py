"""One layer, two executions: `forward` of a whole utterance is `step` over any chunking of it.

Time is on dim 1. A state is a value: nested tuples of tensors with the stream on dim 0, which
a step returns anew. Output frame k depends on input frames up to `ratio * (k + 1) - 1`, and on
none after it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

State = TypeVar("State", bound=tuple[Any, ...])


class Layer(nn.Module):
    """A streaming layer: `step` is its definition, `forward` follows from it."""

    ratio: int = 1  # input frames for one output frame; `step` takes any multiple
    lookahead: int = 0  # input frames that an output frame sees beyond the one at its centre

    def initial_state(self, batch: int) -> Any:
        """Return the state of streams before their first input frame."""
        raise NotImplementedError

    def step(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Return the output (B, T / ratio, ...) of the next (B, T, ...) frames, and the new state.

        Raises: ValueError where T is no multiple of `ratio`.
        """
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        """Return the output (B, T / ratio, ...) of whole (B, T, ...) utterances.

        Frames beyond the last multiple of `ratio` have no output.
        """
        whole = x[:, : x.shape[1] // self.ratio * self.ratio]
        return self.step(whole, self.initial_state(len(x)))[0]

    def check_multiple(self, x: Tensor) -> None:
        """Check that the frames of x (B, T, ...) are a multiple of `ratio`.

        Raises: ValueError where T is not a multiple of `ratio`.
        """
        if x.shape[1] % self.ratio:
            raise ValueError(f"expected a multiple of {self.ratio} frames, got {x.shape[1]}")


class Stateless(Layer):
    """A layer without memory: an output frame depends on its own `ratio` input frames alone."""

    def initial_state(self, batch: int) -> tuple[()]:
        """Return nothing."""
        return ()

    def step(self, x: Tensor, state: tuple[()]) -> tuple[Tensor, tuple[()]]:
        """Return the output of the next frames."""
        self.check_multiple(x)
        return self(x), state


class Serial(Layer):
    """A chain of layers, each on the output of the one before; the state is the tuple of theirs."""

    def __init__(self, *layers: Layer) -> None:
        super().__init__()
        self.parts = nn.ModuleList(layers)

    @property
    def chain(self) -> Sequence[Layer]:
        """The layers in their order; a subclass with named parts overrides it."""
        return list(self.parts)  # type: ignore[arg-type]

    @property
    def ratio(self) -> int:  # type: ignore[override]
        """Input frames of the first layer for one output frame of the last."""
        return prod(layer.ratio for layer in self.chain)

    @property
    def lookahead(self) -> int:  # type: ignore[override]
        """Input frames of the first layer that an output frame of the last sees ahead."""
        frames, ratio = 0, 1
        for layer in self.chain:
            frames += ratio * layer.lookahead
            ratio *= layer.ratio
        return frames

    def initial_state(self, batch: int) -> tuple[Any, ...]:
        """Return the layers' states."""
        return tuple(layer.initial_state(batch) for layer in self.chain)

    def step(self, x: Tensor, state: tuple[Any, ...]) -> tuple[Tensor, tuple[Any, ...]]:
        """Return the last layer's output of the next frames, and the layers' new states."""
        self.check_multiple(x)
        states = []
        for layer, before in zip(self.chain, state, strict=True):
            x, after = layer.step(x, before)
            states.append(after)
        return x, tuple(states)

    def forward(self, x: Tensor) -> Tensor:
        """Return the last layer's output of whole utterances."""
        for layer in self.chain:
            x = layer(x)
        return x


def tensors(state: Iterable[Any]) -> Iterator[Tensor]:
    """Yield the tensors of a nested state."""
    for part in state:
        yield from [part] if isinstance(part, Tensor) else tensors(part)


def changed(state: State, change: Callable[[Tensor], Tensor]) -> State:
    """Return the nested state with every tensor changed; what is no tuple or tensor stays."""

    def part(x: Any) -> Any:
        if isinstance(x, Tensor):
            return change(x)
        return changed(x, change) if isinstance(x, tuple) else x

    return _like(state, [part(x) for x in state])


def merged(state: State, other: State, merge: Callable[[Tensor, Tensor], Tensor]) -> State:
    """Return the nested state that `merge` makes of the tensors of two."""
    parts = [
        merge(x, y) if isinstance(x, Tensor) else merged(x, y, merge)
        for x, y in zip(state, other, strict=True)
    ]
    return _like(state, parts)


def select(state: State, rows: Sequence[int] | Tensor) -> State:
    """Return the state of some streams of a larger one."""
    index = torch.as_tensor(rows, dtype=torch.long)
    return changed(state, lambda tensor: tensor[index])


def put(state: State, rows: Sequence[int] | Tensor, part: State) -> State:
    """Return a larger state in which some streams have the state of `part`."""
    index = torch.as_tensor(rows, dtype=torch.long)
    return merged(state, part, lambda whole, new: whole.index_copy(0, index, new))


def _like(state: State, parts: list[Any]) -> State:
    kind = type(state)
    return kind(parts) if kind is tuple else kind(*parts)
