"""Dataclasses from TOML and JSON, and what is said of those that do not fit."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cortado.model.config_reader import build, toml_tree

FOLDER = Path("/somewhere")


@dataclass(frozen=True)
class Inner:
    size: int = 3
    rate: float = 0.5


@dataclass(frozen=True)
class Outer:
    name: str
    inner: Inner = field(default_factory=Inner)
    many: tuple[Inner, ...] = ()
    numbers: tuple[int, ...] = ()
    file: Path | None = None
    maybe: Inner | None = None
    quick: bool = False


def built(**tree: Any) -> Outer:
    return build(Outer, tree, "here.toml", FOLDER)


def test_missing_keys_take_their_defaults() -> None:
    assert built(name="a") == Outer("a")


def test_tables_and_lists_of_tables_become_dataclasses() -> None:
    found = built(name="a", inner={"size": 4}, many=[{"size": 5}, {}], maybe={"rate": 1.5})
    assert found == Outer("a", Inner(4), (Inner(5), Inner()), maybe=Inner(rate=1.5))


def test_a_whole_number_is_a_rate_too() -> None:
    rate = built(name="a", inner={"rate": 2}).inner.rate
    assert rate == 2.0
    assert type(rate) is float


def test_paths_are_relative_to_the_folder() -> None:
    assert built(name="a", file="b/c").file == FOLDER / "b/c"
    assert built(name="a", file="/b/c").file == Path("/b/c")


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"name": "a", "size": 3}, r"here.toml: expected keys among name, inner.*, got 'size'"),
        ({"name": "a", "inner": {"sise": 3}}, r"here.toml: inner: expected .*size.* got 'sise'"),
        ({"name": "a", "many": [{}, {"x": 1}]}, r"here.toml: many\[1\]: expected .* got 'x'"),
        ({}, r"here.toml: expected a key 'name', got none"),
        ({"name": 3}, r"here.toml: name: expected a valid string, got 3"),
        ({"name": None}, r"here.toml: name: expected a valid string, got None"),
        ({"name": "a", "inner": {"size": 2.5}}, r"inner: size: expected a valid integer, got 2.5"),
        ({"name": "a", "inner": {"size": True}}, r"size: expected a valid integer, got True"),
        ({"name": "a", "inner": {"rate": "x"}}, r"inner: rate: expected a valid number, got 'x'"),
        ({"name": "a", "inner": 3}, r"here.toml: inner: expected a table of keys, got 3"),
        (
            {"name": "a", "many": {}},
            r"many: expected a list, whose tables begin with \[\[many\]\], got {}",
        ),
        ({"name": "a", "numbers": [1, "2"]}, r"numbers\[1\]: expected a valid integer, got '2'"),
        ({"name": "a", "quick": 1}, r"here.toml: quick: expected a valid boolean, got 1"),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(tree: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        built(**tree)


@pytest.mark.parametrize("tree", [None, [], "text", 3])
def test_a_tree_that_is_no_table_is_refused(tree: Any) -> None:
    with pytest.raises(ValueError, match=r"here.json: expected a table of keys, got "):
        build(Outer, tree, "here.json", FOLDER)


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "here.toml").write_bytes(b'name = "\xff"')
    with pytest.raises(ValueError, match=r"here.toml: expected TOML, got "):
        toml_tree(tmp_path / "here.toml")
