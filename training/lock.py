"""Folders that one process at a time writes to."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

log = logging.getLogger(__name__)
LOCK = ".lock"  # a file that stays; what has locked it lets go of it with the process


@contextmanager
def locked(folder: Path, wait: bool = True) -> Iterator[None]:
    """Keep other processes out of a folder during the block, once none is in it.

    Where the system or the file system has no locks, nobody is kept out. The lock is this process'
    alone: those that it forks, which may outlive it for a moment, do not have it. It is not to be
    taken twice in one process, since the first end of it ends both.

    Raises: ValueError where another process is in it, and this one is not to wait.
    """
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows
        yield
        return
    with (folder / LOCK).open("w") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                raise ValueError(f"expected no other process in {folder}, got one") from None
            log.info("%s: waits until another process is done with it", folder)
            fcntl.lockf(file, fcntl.LOCK_EX)
        except OSError:
            log.debug("%s: cannot be locked", folder)
        yield
