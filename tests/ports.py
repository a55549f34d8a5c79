"""Ports for programs that have to be told one."""

import os
import socket
from contextlib import suppress
from itertools import count

# Below those that the system gives to whoever asks for any, and seldom those of another process.
_next = count(20_000 + os.getpid() % 10_000)


def unused_port() -> int:
    """Return a port that nobody has, and that this process was not given before."""
    for port in _next:
        with socket.socket() as one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port
    raise AssertionError("ports end before they are counted")
