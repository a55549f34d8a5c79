"""Files that are there as a whole or not at all, whatever happens while they are written."""

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Let the system's errors in the block name the file, which that of a full disk does not."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:  # else it is one of ours, which says all
            error.filename = error.filename or str(path)
        raise


@contextmanager
def whole(path: Path, mode: int = 0o666) -> Iterator[Path]:
    """Yield an empty file beside `path` to write to, which takes its place when the block ends.

    Where the block fails, the file that was there stays, and the new one is removed. Each writer
    has a file of its own; the last one to end wins. A link stays, and a device or a pipe, such as
    /dev/stdout, is written to as it is.

    Args:
        path: in a folder that is there.
        mode: the file's permissions, less the umask.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        with named(path):
            yield path
        return
    path = path.resolve()
    # The name is cut: with what is added it may be no longer than a file system allows.
    part = path.with_name(f"{path.name[:50]}.{secrets.token_hex(4)}.part")
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
    try:
        with named(path):
            yield part
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a whole text or other content, and the folders above it where they are missing.

    A text may hold file names of any bytes: those that are no UTF-8 are written with a backslash.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, str):
        content = content.encode(errors="backslashreplace")
    with whole(path) as part:
        part.write_bytes(content)


def write_tree(path: Path, tree: Any) -> None:
    """Write a tree of tables, lists, texts and numbers as JSON, a line for each value."""
    write_whole(path, json.dumps(tree, indent=2, ensure_ascii=False) + "\n")
