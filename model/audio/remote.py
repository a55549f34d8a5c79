"""Files that lie elsewhere: in an object store, on the web, wherever fsspec has a way to.

Such a file is a `UPath` of universal-pathlib (the extra `archive`), which answers as a `Path` does.
FFmpeg goes to and fro in a file, so it is fetched whole, into a file without a name.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from errno import EIO
from pathlib import Path
from tempfile import TemporaryFile
from threading import Event
from typing import BinaryIO, cast

PIECE = 2**20  # bytes that are copied at once
WEB = ("http://", "https://")
GONE = (404, 410)  # of HTTP: there is no such file


def is_address(name: str) -> bool:
    """Return whether a name is an address, such as s3://bucket/talk.wav."""
    kind, separator, _ = name.partition("://")
    return bool(separator) and kind.isalnum()


def is_remote(path: Path) -> bool:
    """Return whether a file has to be fetched."""
    return not isinstance(path, Path)


def at(name: str) -> Path:
    """Return the file or folder of that name or address.

    Raises:
        ValueError: nothing that is installed reads such addresses.
        ModuleNotFoundError: nor is the extra `archive`.
    """
    if not is_address(name):
        return Path(name)
    from upath import UPath

    try:
        path = UPath(name)
        _ = path.fs  # made when it is asked for
    except ModuleNotFoundError:
        raise
    except (ImportError, ValueError) as error:  # no plugin is installed, or none is known
        raise ValueError(f"expected an address that fsspec reads, got {name}: {error}") from error
    return Path(path.path) if path.protocol in ("file", "local") else cast(Path, path)


def name_of(path: Path) -> Path:
    """Return an address's host or bucket and its path, in names that lead to no other folder."""
    _, _, rest = str(path).partition("://")
    if str(path).startswith(WEB):
        rest = rest.partition("#")[0].partition("?")[0]
    return Path(*(part for part in rest.split("/") if part not in (".", "..")))


def is_folder(path: Path) -> bool:
    """Return whether files lie below a path: on the web, where it ends with a slash.

    Raises: OSError where that cannot be learnt.
    """
    if str(path).startswith(WEB):
        return str(path).endswith("/")
    with _one_error(path):
        return path.is_dir()


def files_below(path: Path) -> list[Path]:
    """Return the remote files below a path, in order.

    Raises: OSError where they cannot be listed.
    """
    from upath import UPath

    with _one_error(path):
        system = cast(UPath, path).fs
        found = sorted(system.find(cast(UPath, path).path))
        return [cast(Path, UPath(system.unstrip_protocol(name))) for name in found]


def text_of(path: Path) -> str:
    """Return the text of a file, here or elsewhere.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not in UTF-8.
    """
    with _one_error(path):
        try:
            return path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: expected text in UTF-8, got {error}") from error


def fetched(path: Path, unwanted: Event | None = None) -> BinaryIO:
    """Return a remote file's bytes, in a file of this disk that is gone when it is closed.

    Raises: OSError where it cannot be fetched, or is `unwanted` before it is here.
    """
    with ExitStack() as kept:
        file = kept.enter_context(TemporaryFile())
        with _one_error(path), path.open("rb") as source:
            while piece := source.read(PIECE):
                if unwanted and unwanted.is_set():
                    raise OSError("nobody waits for it any more")
                file.write(piece)
        file.seek(0)
        kept.pop_all()  # it stays open
    return cast(BinaryIO, file)


def changed(path: Path) -> float:
    """Return when a file was changed, in seconds since 1970; 0 where that is not known.

    Raises: OSError where there is no such file.
    """
    if str(path).startswith(WEB):  # fsspec does not ask it
        return 0.0
    with _one_error(path):
        return float(path.stat().st_mtime)


@contextmanager
def _one_error(path: Path) -> Iterator[None]:
    """Let each store's own errors be an OSError, which says them on one line; a disk's are one."""
    try:
        yield
    except Exception as error:  # each plugin has classes of its own
        if not is_remote(path):
            raise
        found: BaseException = error
        if isinstance(error, FileNotFoundError):
            # On the web, fsspec calls whatever goes wrong so.
            cause = error.__cause__ if str(path).startswith(WEB) else None
            if cause is None or getattr(cause, "status", None) in GONE:
                raise
            found = cause
        reason = " ".join(str(found).split()) or type(found).__name__
        raise OSError(EIO, reason, str(path)) from error
