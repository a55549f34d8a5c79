"""What the uses of a tensor leave for its source in one backward pass."""

from typing import Generic, TypeVar

import torch

E = TypeVar("E")


class Gathered(Generic[E]):
    """Parts of a gradient that the functions which use a tensor leave for the one that gave it.

    A backward pass may end before it comes to the source, as `torch.autograd.grad` of other
    tensors does. What it left is no part of the next pass.
    """

    def __init__(self) -> None:
        self._pass = -1
        self._parts: list[E] = []

    def parts(self) -> list[E]:
        """Return what was gathered in the backward pass that runs, to be added to.

        Raises: RuntimeError in one whose gradients are to be differentiated: they lie in no graph.
        """
        if torch.is_grad_enabled():
            raise RuntimeError("expected a backward pass without create_graph, got one with it")
        current = torch._C._current_graph_task_id()
        if current != self._pass:
            self._pass, self._parts = current, []
        return self._parts

    def take(self) -> list[E]:
        """Return what was gathered in the backward pass that runs, and let go of it."""
        found, self._parts = self.parts(), []
        return found
