"""Who may import whom: model <- training, model <- server, server.protocol <- clients."""

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("model", "training", "server", "clients")
ALLOWED = {
    "model": ("model",),
    "training": ("training", "model"),
    "server": ("server", "model"),
    "clients": ("clients", "server.protocol"),
    "clients/bench": (
        "clients.bench",
        "clients.progress",
        "clients.stream",
        *PACKAGES[:3],
    ),  # they measure all
}
# Where the packages meet: the command, and what its parts import within their functions.
COMMANDS = sorted((ROOT / "clients" / "commands").glob("*.py"))
COMPOSITION_ROOT = [ROOT / "clients" / "cli.py", *COMMANDS]
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def imported(tree: ast.AST, path: Path) -> Iterator[str]:
    """Yield the dotted names that the code in `tree`, read from `path`, imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (_own(alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = path.relative_to(ROOT).parent.parts
                above = parents[: len(parents) - node.level + 1]
                base = ".".join((*above, *([node.module] if node.module else [])))
            yield from (_own(f"{base}.{alias.name}") for alias in node.names)


def _own(name: str) -> str:
    """Return a name without the package's own."""
    return name.removeprefix("cortado.")


def is_within(name: str, allowed: tuple[str, ...]) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in allowed)


def strangers(path: Path, tree: ast.AST) -> list[str]:
    """Return the names of ours that the file at `path` may not import and does."""
    within = path.relative_to(ROOT).parent.as_posix()
    allowed = next(
        ALLOWED[room] for room in sorted(ALLOWED, reverse=True) if within.startswith(room)
    )
    ours = (*PACKAGES, "tests")
    return [
        name
        for name in imported(tree, path)
        if is_within(name, ours) and not is_within(name, allowed)
    ]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: os.fspath(path.relative_to(ROOT)))
def test_every_import_follows_the_arrows(path: Path) -> None:
    if path not in COMPOSITION_ROOT:
        assert strangers(path, ast.parse(path.read_text())) == []


@pytest.mark.parametrize("path", COMPOSITION_ROOT, ids=lambda path: path.name)
def test_the_composition_root_imports_the_packages_only_inside_its_commands(path: Path) -> None:
    tree = ast.parse(path.read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    tree.body = [
        node for node in tree.body if not isinstance(node, functions) and not _for_types_only(node)
    ]
    ours = [name for name in imported(tree, path) if is_within(name, PACKAGES)]
    assert [name for name in ours if not is_within(name, ("clients.commands",))] == []


def _for_types_only(node: ast.stmt) -> bool:
    """Return whether a statement is `if TYPE_CHECKING:`, which does not run."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


PURE = sorted((ROOT / "server" / "protocol").glob("*.py"))
IMPURE = (
    "asyncio",
    "fastapi",
    "socket",
    "starlette",
    "threading",
    "torch",
    "uvicorn",
    "websockets",
)


@pytest.mark.parametrize("path", PURE, ids=lambda path: path.name)
def test_the_protocol_is_pure(path: Path) -> None:
    names = list(imported(ast.parse(path.read_text()), path))
    assert [name for name in names if is_within(name, IMPURE)] == []
    ours = [name for name in names if is_within(name, PACKAGES)]
    assert [name for name in ours if not is_within(name, ("server.protocol",))] == []


def test_a_relative_import_is_resolved_to_its_package() -> None:
    tree = ast.parse("from ..server import engine\nfrom . import web\nfrom .web import page")
    names = list(imported(tree, ROOT / "clients" / "player.py"))
    assert names == ["server.engine", "clients.web", "clients.web.page"]
    assert strangers(ROOT / "clients" / "player.py", tree) == ["server.engine"]
