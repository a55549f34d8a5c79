"""numba's compiler with a cache on disk that an update of the sources cannot break.

numba caches a compiled function under the date of its own file. It does not notice a change in
another file that is compiled into the function. It also unpickles an old entry before it looks at
the date, which fails if the entry names a class that has been renamed since. Here an entry belongs
to one digest of the function's file and of all files of ours that it imports, directly or not.
Entries of another digest are never unpickled, and those that cannot be read are compiled again.
Where nothing can be written, what is there is used and the rest is compiled at each start.

Processes do not compile the same thing twice: one does, and those that need it as well wait. So one
process can be started to compile a part of what another one needs (ahead.py).
"""

import ast
import hashlib
import logging
import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, UserProvidedCacheLocator
from numba.core.compiler_lock import global_compiler_lock

from cortado.model.compiled import ahead
from cortado.model.lock import locked

PACKAGE = "cortado."
log = logging.getLogger(__name__)


class GivenFolder(UserProvidedCacheLocator):
    """The folder NUMBA_CACHE_DIR; numba would not read one that it cannot write to."""

    def ensure_cache_path(self) -> None:
        """Make the folder of the function's module.

        Raises: OSError where it is not there, and cannot be made.
        """
        if not os.path.isdir(self.get_cache_path()):  # type: ignore[no-untyped-call]
            super().ensure_cache_path()  # type: ignore[no-untyped-call]


class Places(CompileResultCacheImpl):
    """Where numba keeps compiled functions: the first of these that exists or can be made."""

    _locator_classes = [GivenFolder, *CompileResultCacheImpl._locator_classes]  # noqa: RUF012


class SourceCache(FunctionCache):
    """The cache of one function, valid for the sources that it is compiled from."""

    _impl_class = Places

    def __init__(self, function: Callable[..., Any], parts: ahead.Parts | None) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        sources = source_files(Path(function.__code__.co_filename))
        self._cache_file._version += f" {digest(sources)}"  # what numba compares first
        self._lock = Path(self.cache_path, f"{self._impl.filename_base}.lock")
        self._held, self._parts = ExitStack(), parts

    def compiling(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """Return numba's method that loads or compiles, which now keeps other processes waiting."""

        def compile_alone(signature: Any) -> Any:
            # in this order in each thread: what holds numba's lock may need more functions
            with global_compiler_lock, self._held:
                return compiled(signature)

        return compile_alone

    def load_overload(self, signature: Any, *args: Any) -> Any:
        """Return a compiled signature of the function; None if it has to be compiled now."""
        found = self._loaded(signature, *args)
        if found is None:
            say_once()
            # where that fails, nothing can be kept, so there is nothing to wait for either
            with suppress(OSError):
                self._held.enter_context(locked(self._lock))
                found = self._loaded(signature, *args)
                if found is None and self._parts:
                    ahead.start(self._parts(signature))
        return found

    def _loaded(self, *args: Any) -> Any:
        """Return a compiled signature of the function; None if there is none or it is broken."""
        try:
            return super().load_overload(*args)  # type: ignore[no-untyped-call]
        except Exception as error:  # unpickling raises any, by what is in the file
            log.warning("compiling %s again, whose cache is broken: %r", self._name, error)
            try:
                self.flush()  # type: ignore[no-untyped-call]
            except OSError:
                self._give_up()
            return None

    def save_overload(self, *args: Any) -> None:
        """Keep a compiled signature of the function, if it can be written."""
        try:
            super().save_overload(*args)  # type: ignore[no-untyped-call]
        except OSError:
            self._give_up()

    def _give_up(self) -> None:
        self.disable()  # type: ignore[no-untyped-call]
        warn_once(self.cache_path)


@cache
def say_once() -> None:
    """Tell whoever waits that something is compiled."""
    log.warning("compiling for this CPU: it takes up to two minutes, and is kept for later starts")


@cache
def warn_once(folder: str) -> None:
    """Say that nothing can be written to a folder."""
    log.warning(
        "each start compiles anew what cannot be kept: expected a folder to write to, got %s; "
        "NUMBA_CACHE_DIR names another",
        folder,
    )


def cached_njit(
    *, parts: ahead.Parts | None = None, **options: Any
) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator: `numba.njit` that releases Python's lock and caches on disk.

    Args:
        parts: given a signature, the functions that another process compiles meanwhile.
        options: numba's.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        dispatcher: Any = numba.njit(nogil=True, **options)(function)
        try:
            cache = SourceCache(function, parts)
            dispatcher._cache = cache  # as its enable_caching does
            dispatcher.compile = cache.compiling(dispatcher.compile)
        except RuntimeError:  # numba's own, if there is no folder at all
            warn_once("none")
        return dispatcher

    return decorate


def uncounted(*, cached: bool = False, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator: `numba.njit` that counts no references to arrays, for parts of a step.

    numba counts the references to an array's memory, one for each view of it, and each time that
    takes two atomic operations. In code that takes thousands of views of small rows they cost more
    than the work itself, and threads that share the array wait for each other. Nothing needs the
    count as long as the caller holds the array. Code without it can neither make arrays nor return
    views of them: to compile that is an error.

    Args:
        cached: whether what is compiled is kept on disk.
        options: numba's, or those of `cached_njit`.
    """
    options["_nrt"] = False  # numba's runtime
    return cached_njit(**options) if cached else numba.njit(nogil=True, **options)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a function into what calls it and nowhere else, without Python's lock.

    numba compiles and optimises each function by itself, then once more in what calls it. One that
    is a part of a single other function costs that time for nothing. Its floating-point flags are
    those of its caller, and so is whether references are counted.
    """
    return numba.njit(nogil=True, inline="always")(function)


def digest(files: Iterable[Path]) -> str:
    """Return a digest of files in hexadecimal."""
    return hashlib.sha256(b"".join(_content(path) for path in sorted(files))).hexdigest()


def source_files(path: Path) -> set[Path]:
    """Return a source file and all files of ours that it imports, directly or not."""
    found, waiting = set[Path](), {path}
    while waiting:
        found |= waiting
        waiting = {file for one in waiting for file in _imported_files(one)} - found
    return found


@cache
def _content(path: Path) -> bytes:
    return path.read_bytes()


@cache
def _imported_files(path: Path) -> list[Path]:
    names = [
        name
        for node in ast.parse(_content(path)).body  # what is imported elsewhere is not compiled in
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE)
        for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
    ]
    root = Path(__file__).parents[2]
    files = (root / f"{name.removeprefix(PACKAGE).replace('.', '/')}.py" for name in names if name)
    return [file for file in files if file.exists()]
