"""Compiles some functions for another process, which compiles the others at the same time.

numba compiles under a lock, so threads would wait for each other. What is compiled goes through the
cache on disk (jit.py). Whichever process comes to a function first compiles it.
"""

import atexit
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from threading import Thread
from typing import Any

from cortado.model.cores import usable_cores

Signature = tuple[Any, ...]  # numba's types of the arguments
Part = tuple[Any, Signature]  # a compiled function, and how it is called
Parts = Callable[[Signature], Iterable[Part]]


def start(parts: Iterable[Part]) -> subprocess.Popen[bytes] | None:
    """Return a new process that compiles functions in their order; None without a core for it.

    If it fails, they are compiled where they are needed. It ends with this process.

    Raises: OSError where none can be started.
    """
    if usable_cores() < 2:
        return None
    named = [(f.__module__, f.__qualname__, signature) for f, signature in parts]
    command, nowhere = [sys.executable, "-P", "-m", __name__], subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=nowhere, stderr=nowhere)
    atexit.register(_end, process)
    assert process.stdin is not None
    with process.stdin:
        pickle.dump(named, process.stdin)
    Thread(target=process.wait, daemon=True).start()  # else its entry stays until this process ends
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _compile() -> None:
    for module, name, signature in pickle.load(sys.stdin.buffer):
        getattr(import_module(module), name).compile(signature)


if __name__ == "__main__":
    _compile()
