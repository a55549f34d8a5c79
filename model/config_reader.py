"""Frozen dataclasses from TOML or JSON: an unknown key is an error that names it."""

import dataclasses
import json
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

Built = TypeVar("Built")


def build(kind: type[Built], tree: Mapping[str, Any], where: str, folder: Path) -> Built:
    """Return a dataclass from a mapping, nested tables included.

    Args:
        kind: the dataclass.
        tree: what TOML or JSON holds; lists become tuples, and whole numbers floats where asked.
        where: what messages begin with, as the file's name.
        folder: that paths are relative to.

    Raises:
        ValueError: an unknown or missing key, a value of the wrong type, or one that the
            dataclass refuses; the key is named.
    """
    _check_finite(tree, where)
    text = json.dumps(tree, default=str)  # strict JSON has tuples and paths, strict Python has none
    try:
        found = TypeAdapter(kind).validate_json(text, strict=True, extra="forbid")
    except ValidationError as error:
        problems = error.errors()
        unknown = [one for one in problems if one["type"] == "unexpected_keyword_argument"]
        raise ValueError(f"{where}: {_said(kind, (unknown or problems)[0])}") from None
    return _placed(found, folder)


def _check_finite(value: Any, where: str) -> None:
    """Raise `ValueError` for the first number that is NaN or infinite, with its place."""
    if isinstance(value, Mapping):
        for name, one in value.items():
            _check_finite(one, f"{where}: {name}")
    elif isinstance(value, (list, tuple)):
        for place, one in enumerate(value):
            _check_finite(one, f"{where}[{place}]")
    elif isinstance(value, float) and not isfinite(value):
        raise ValueError(f"{where}: expected a finite number, got {value}")


def read_toml(kind: type[Built], path: Path) -> Built:
    """Return the dataclass in a TOML file; paths in it are relative to the file's folder.

    Raises:
        ValueError: not TOML, or as `build` does.
        OSError: the file cannot be read.
    """
    return build(kind, toml_tree(path), str(path), path.parent)


def toml_tree(path: Path) -> dict[str, Any]:
    """Return what a TOML file holds.

    Raises:
        ValueError: not TOML.
        OSError: the file cannot be read.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: expected TOML, got {error}") from error


def json_tree(path: Path) -> Any:
    """Return what a JSON file holds.

    Raises:
        ValueError: not JSON.
        OSError: the file cannot be read.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: expected JSON, got {error}") from error


def _said(kind: Any, problem: ErrorDetails) -> str:
    """Return what is wrong, behind the place where it is."""
    place, got, name = list(problem["loc"]), problem["input"], problem["type"]
    if name in ("unexpected_keyword_argument", "missing"):
        key = place.pop()
        known = ", ".join(field.name for field in dataclasses.fields(_type_at(kind, place)))
        unknown = f"expected keys among {known}, got {key!r}"
        message = f"expected a key {key!r}, got none" if name == "missing" else unknown
    elif name == "value_error":
        message = problem["msg"].removeprefix("Value error, ")
    elif name == "tuple_type":
        tables = f", whose tables begin with [[{place[-1]}]]" if isinstance(got, Mapping) else ""
        message = f"expected a list{tables}, got {got!r}"
    elif name == "dataclass_type":
        message = f"expected a table of keys, got {got!r}"
    else:
        message = f"{problem['msg'].replace('Input should be', 'expected')}, got {got!r}"
    path = "".join(f"[{part}]" if isinstance(part, int) else f": {part}" for part in place)
    return f"{path}: {message}".removeprefix(": ")


def _type_at(kind: Any, place: Sequence[str | int]) -> Any:
    """Return the dataclass that a place in a tree is to hold."""
    for part in place:
        if isinstance(part, int):
            kind = typing.get_args(kind)[0]  # of tuple[X, ...]
        else:
            kind = typing.get_type_hints(kind)[part]
        if isinstance(kind, types.UnionType):  # X | None
            kind = typing.get_args(kind)[0]
    return kind


def _placed(value: Any, folder: Path) -> Any:
    """Return a value whose paths begin in a folder."""
    if isinstance(value, Path):
        return folder / value
    if isinstance(value, tuple):
        return tuple(_placed(one, folder) for one in value)
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
    moved = {name: _placed(one, folder) for name, one in fields.items()}
    return dataclasses.replace(value, **moved) if moved != fields else value


def flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return what a tree of tables holds, by names with a dot between a table's and a key's."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        inner = isinstance(value, Mapping)
        found |= flat(value, f"{prefix}{name}.") if inner else {prefix + name: value}
    return found
