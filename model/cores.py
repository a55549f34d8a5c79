"""The cores of this machine."""

import os


def usable_cores() -> int:
    """Return the cores that this process may use, which a container may have fewer of."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
