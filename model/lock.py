"""Files that one process at a time holds: whoever does may write what they stand for."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

log = logging.getLogger(__name__)
LOCK = ".lock"  # of a whole folder


@contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[None]:
    """Hold a file during the block, once no other process does; the file stays.

    Where the system or the file system has no locks, nobody is kept out. The lock is this process'
    alone: those that it forks, which may outlive it for a moment, do not have it. It is not to be
    taken twice in one process, since the first end of it ends both.

    Raises: ValueError where another process holds it, and this one is not to wait.
    """
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows
        yield
        return
    with path.open("w") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                raise ValueError(f"expected no other process in {path.parent}, got one") from None
            log.info("%s: waits until another process is done with it", path.parent)
            fcntl.lockf(file, fcntl.LOCK_EX)
        except OSError:
            log.debug("%s: cannot be locked", path)
        yield
