"""Compiled functions outlive updates of their sources, and broken caches."""

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import numba
import numpy as np
import pytest
from numba.core.errors import TypingError

from cortado.model.compiled import ahead, jit
from cortado.model.compiled.jit import digest, source_files
from cortado.tests.model.locking import another_process_holding

SOURCE = """
from typing import NamedTuple
import cortado.model.compiled.jit as jit

class Point(NamedTuple):
    x: int
    y: int

@jit.cached_njit()
def total(point):
    return point.x + point.y
"""

TOTAL = "from compiled_points import *; print(total(Point(1, 2)), len(total.stats.cache_hits))"
# Root may write anywhere, so it becomes nobody, once all is imported that lies in root's folders.
AS_NOBODY = """
import os, numba
from typing import NamedTuple
from cortado.model.compiled import jit
numba.njit(lambda point: point[0])(NamedTuple("Pair", [("x", int), ("y", int)])(1, 2))
if os.getuid() == 0:
    os.setuid(65534)
"""


def test_what_counts_no_references_makes_no_arrays() -> None:
    with pytest.raises(TypingError):
        jit.uncounted()(lambda size: np.ones(size))(3)


@pytest.mark.parametrize("decorator", [jit.uncounted, numba.njit])
def test_references_to_views_are_counted_elsewhere_alone(decorator: Callable[[], Any]) -> None:
    @decorator()
    def total(rows):  # type: ignore[no-untyped-def]
        found = 0.0
        for n in range(len(rows)):
            row = rows[n]
            for k in range(len(row)):
                found += row[k]
        return found

    rows = np.ones((3, 4))
    count = sys.getrefcount(rows)
    assert total(rows) == 12
    assert sys.getrefcount(rows) == count
    [code] = total.inspect_asm().values()
    assert ("NRT_" in code) is (decorator is numba.njit)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    # Bytecode counts as new while its source has the same size and second.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path / "compiled_points.py"
    sys.modules.pop("compiled_points", None)


def load(path: Path, source: str) -> ModuleType:
    """Write a module and import it as a new process does."""
    path.write_text(source)
    jit._content.cache_clear()
    jit._imported_files.cache_clear()
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def loaded_from_disk(module: ModuleType) -> bool:
    return bool(module.total.stats.cache_hits)


def test_a_class_that_is_renamed_breaks_no_cache(path: Path) -> None:
    old = load(path, SOURCE)
    assert old.total(old.Point(1, 2)) == 3
    new = load(path, SOURCE.replace("Point", "Place"))
    assert new.total(new.Place(1, 2)) == 3


def test_what_is_unchanged_is_not_compiled_again(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for seen in (False, True):
        jit.say_once.cache_clear()
        caplog.clear()
        module = load(path, SOURCE)
        assert module.total(module.Point(1, 2)) == 3
        assert loaded_from_disk(module) == seen
        assert ("compiling for this CPU" in caplog.text) != seen


def test_a_change_in_another_file_of_ours_compiles_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load(path, SOURCE)
    assert module.total(module.Point(1, 2)) == 3
    monkeypatch.setattr(jit, "source_files", lambda path: {path, Path(__file__)})
    module = load(path, SOURCE)
    assert module.total(module.Point(1, 2)) == 3
    assert not loaded_from_disk(module)


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_a_cache_that_cannot_be_read_is_compiled_again(
    path: Path, suffix: str, caplog: pytest.LogCaptureFixture
) -> None:
    module = load(path, SOURCE)
    assert module.total(module.Point(1, 2)) == 3
    (file,) = path.parent.rglob(f"*.{suffix}")
    file.write_bytes(file.read_bytes()[:20])
    with caplog.at_level(logging.WARNING):
        module = load(path, SOURCE)
        assert module.total(module.Point(1, 2)) == 3
    assert "whose cache is broken" in caplog.text
    module = load(path, SOURCE)
    assert module.total(module.Point(1, 2)) == 3
    assert loaded_from_disk(module)


def damaged(folder: Path, damage: str) -> None:
    """Do something to what is kept in a folder, and take the right to write from it."""
    for file in folder.rglob("*.nb[ic]"):
        if damage == file.suffix:
            file.write_bytes(file.read_bytes()[:20])
        if damage == "unreadable":
            file.chmod(0)
    if damage == "stale":
        (folder / "compiled_points.py").write_text(SOURCE + "# changed")
    for one in (folder, *(part for part in folder.rglob("*") if part.is_dir())):
        one.chmod(0o555)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that another user may read too."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        for one in (folder, *folder.rglob("*")):
            one.chmod(0o755)


@pytest.mark.parametrize("damage", ["none", ".nbi", ".nbc", "unreadable", "stale", "no folder"])
def test_what_cannot_be_written_is_read_if_it_is_whole_and_compiled_if_not(
    open_folder: Path, damage: str
) -> None:
    (open_folder / "compiled_points.py").write_text(SOURCE)
    kept = open_folder / "kept"
    own = {"NUMBA_CACHE_DIR": str(kept), "PYTHONPATH": str(open_folder), "HOME": "/nowhere"}

    def run(program: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", program]
        return subprocess.run(command, env=os.environ | own, capture_output=True, text=True)

    if damage != "no folder":
        assert run(TOTAL).stdout == "3 0\n"
    damaged(open_folder, damage)
    found = run(AS_NOBODY + TOTAL)
    assert found.stdout == ("3 1\n" if damage == "none" else "3 0\n"), found.stderr
    assert found.stderr.count("compiles anew") == (damage != "none")
    assert "Traceback" not in found.stderr


LONG = f"""
import sys
import cortado.model.compiled.jit as jit

@jit.cached_njit()
def long(x):
    {"; ".join(f"x = x * {k} + {k}" for k in range(1, 200))}
    return x

def run():
    print("ready", flush=True)
    sys.stdin.readline()
    long(1)
    print(len(long.stats.cache_hits))
"""


def test_of_several_processes_one_compiles_and_the_others_wait(tmp_path: Path) -> None:
    (tmp_path / "compiled_long.py").write_text(LONG)
    command = [sys.executable, "-c", "from compiled_long import run; run()"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    own = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kept"), "PYTHONPATH": str(tmp_path)}
    with ExitStack() as stack:
        processes = [
            stack.enter_context(subprocess.Popen(command, env=own, **pipes)) for _ in range(3)
        ]
        for one in processes:
            assert one.stdout
            assert one.stdout.readline() == "ready\n"
        for one in processes:
            assert one.stdin
            one.stdin.write("go\n")
            one.stdin.flush()
        assert sorted(one.communicate()[0] for one in processes) == ["0\n", "1\n", "1\n"]


def test_another_process_compiles_for_this_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "usable_cores", lambda: 2)
    monkeypatch.setenv("PYTHONPATH", str(path.parent))
    module = load(path, SOURCE.replace("point.x + point.y", "point + 1"))
    process = ahead.start([(module.total, (numba.int64,))])
    assert process
    assert process.wait() == 0
    assert module.total(1) == 2
    assert loaded_from_disk(module)


def test_a_function_whose_compilation_fails_keeps_nobody_waiting(path: Path) -> None:
    module = load(path, SOURCE)
    with pytest.raises(TypingError):
        module.total("text")
    with another_process_holding(module.total._cache._lock):
        pass


def test_sources_are_what_is_imported_directly_or_not(path: Path) -> None:
    path.write_text("from cortado.model.search import beam\n")
    names = {one.name for one in source_files(path)}
    assert names >= {path.name, "beam.py", "language_model.py", "functions.py", "framing.py"}
    assert "pool.py" not in names
    assert digest(source_files(path)) != digest([path])
