"""A module of Triton kernels as Triton's interpreter reads it, on the CPU."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest


@contextmanager
def interpreted(name: str) -> Iterator[ModuleType]:
    """Give a module of model/compiled/operations, its kernels run by the interpreter."""
    pytest.importorskip("triton")
    whole = f"cortado.model.compiled.operations.{name}"
    before = sys.modules.pop(whole, None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        yield importlib.import_module(whole)
    del sys.modules[whole]
    if before is not None:
        sys.modules[whole] = before
