"""Memory that the process has freed."""

import ctypes
import sys
from contextlib import suppress


def give_back() -> None:
    """Return freed memory to the system, where the C library (glibc's) would keep it for itself."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another library
            ctypes.CDLL(None).malloc_trim(0)
