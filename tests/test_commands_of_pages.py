"""The commands on the pages are commands: their names, options and arguments are right."""

import re
import shlex
from importlib import import_module
from pathlib import Path

import click
import pytest
import typer

from cortado.clients.cli import COMMANDS
from cortado.clients.commands.terminal import STYLE

ROOT = Path(__file__).parent.parent
OTHERS = ("README.md", "RESULTS.md", "training/RESULTS.md", "docker/README.md")
PAGES = (*(ROOT / name for name in OTHERS), *sorted((ROOT / "docs").glob("*.md")))
LINE = re.compile(r"^    ((?:[\w.]+=\S+ )*(?:cat \S+ \| )?cortado .+)$", re.MULTILINE)


def commands_of(page: Path) -> list[str]:
    """Return the commands of a page, each on one line."""
    return LINE.findall(page.read_text(encoding="utf-8").replace("\\\n", ""))


def commands() -> list[tuple[str, str]]:
    """Return each page's name and command, without `cortado` and without what follows a #."""
    found = []
    for page in PAGES:
        lines = (line.partition("cortado ")[2] for line in commands_of(page))
        found += [(page.name, re.split("  #| > ", line)[0]) for line in lines]
    return found


def test_there_are_commands_on_the_pages() -> None:
    assert len(commands()) > 20


@pytest.mark.parametrize(("page", "line"), commands())
def test_a_command_of_a_page_is_understood(page: str, line: str) -> None:
    words = [word for word in shlex.split(line) if word != "…"]
    name = next((name for name in COMMANDS if words[: len(name.split())] == name.split()), None)
    assert name, f"expected a command, got {line}"
    function = name.replace(" ", "_")
    module = import_module(f"cortado.clients.commands.{function}")
    app = typer.Typer(**STYLE)
    app.command(**getattr(module, "OPTIONS", {}))(getattr(module, function))
    try:
        typer.main.get_command(app).make_context(name, words[len(name.split()) :])
    except click.ClickException as error:
        pytest.fail(f"{page}: {line}: {error.format_message()}")


def test_every_page_can_be_reached_from_the_first() -> None:
    reached, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        text = page.read_text(encoding="utf-8")
        links = re.findall(r"\]\(([\w./-]+\.md)(?:#[\w-]+)?\)", text)
        below = {(page.parent / link).resolve() for link in links}
        assert [one for one in below if not one.is_file()] == []
        waiting += below - reached - set(waiting)
    assert set((ROOT / "docs").glob("*.md")) <= reached
