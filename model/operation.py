"""Custom operations: defined in plain tensor code for any device, with faster kernels on some.

A definition registers its operation with `operation`; it knows nothing of what is faster.
A leaf registers a kernel for a device with `kernel`; definitions do not import leaves. Whoever
wants speed does: `cortado.model.compiled.operations` registers all that there are.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., Any])

_LIBRARY = torch.library.Library("cortado", "FRAGMENT")
_definitions: dict[str, Callable[..., Any]] = {}
_plain = False


def operation(schema: str) -> Callable[[Function], Function]:
    """Register plain tensor code as `cortado::name`, on every device, and return the operation.

    Its gradient is what autograd makes of the code.

    Args:
        schema: its name, arguments and results, as `torch.library` has them.
    """
    name = schema[: schema.index("(")]

    def register(definition: Function) -> Function:
        _LIBRARY.define(schema)
        _LIBRARY.impl(name, definition, "CompositeImplicitAutograd")
        _definitions[name] = definition
        return getattr(torch.ops.cortado, name).default

    return register


def definition(name: str) -> Callable[..., Any]:
    """Return the plain tensor code of an operation, for a kernel that leaves some calls to it."""
    return _definitions[name]


def kernel(name: str, *devices: str) -> Callable[[Function], Function]:
    """Register what computes an operation, and its gradient, on devices: "CPU", "CUDA", "MPS"."""

    def register(run: Function) -> Function:
        def chosen(*arguments: Any) -> Any:
            return (_definitions[name] if _plain else run)(*arguments)

        for device in devices:
            for key in (device, f"Autograd{device}"):
                _LIBRARY.impl(name, chosen, key)
        return run

    return register


@contextmanager
def plain() -> Iterator[None]:
    """Compute all operations by their definitions within the context, whatever is registered."""
    global _plain
    before, _plain = _plain, True
    try:
        yield
    finally:
        _plain = before
