"""Frozen dataclasses from TOML or JSON: an unknown key is an error that names it."""

import dataclasses
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

Built = TypeVar("Built")


def build(kind: type[Built], tree: Mapping[str, Any], where: str, folder: Path) -> Built:
    """Return a dataclass from a mapping, nested tables included.

    Raises:
        ValueError: an unknown or missing key, or a value of the wrong type; `where` is named.
    """
    if not isinstance(tree, Mapping):
        raise ValueError(f"{where}: expected a table of keys, got {tree!r}")
    hints = typing.get_type_hints(kind)
    fields = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(set(tree) - set(fields))
    if unknown:
        known = ", ".join(fields)
        raise ValueError(f"{where}: expected keys among {known}, got {unknown[0]!r}")
    values = {
        name: convert(hints[name], value, f"{where}: {name}", folder)
        for name, value in tree.items()
    }
    for name, f in fields.items():
        optional = (f.default, f.default_factory) != (dataclasses.MISSING, dataclasses.MISSING)
        if name not in values and not optional:
            raise ValueError(f"{where}: expected a key {name!r}, got none")
    return kind(**values)


def convert(hint: Any, value: Any, where: str, folder: Path) -> Any:
    """Return a TOML or JSON value as the type that a field declares."""
    if isinstance(hint, types.UnionType):  # X | None, and TOML has no None
        hint = next(part for part in typing.get_args(hint) if part is not type(None))
    if dataclasses.is_dataclass(hint) and isinstance(value, Mapping):
        return build(typing.cast(type[Any], hint), value, where, folder)
    if typing.get_origin(hint) is typing.Literal:
        if value not in typing.get_args(hint):
            known = ", ".join(typing.get_args(hint))
            raise ValueError(f"{where}: expected one of {known}, got {value!r}")
        return value
    if typing.get_origin(hint) is tuple and isinstance(value, list):
        item = typing.get_args(hint)[0]
        return tuple(convert(item, part, f"{where}[{k}]", folder) for k, part in enumerate(value))
    if hint is Path and isinstance(value, str):
        return folder / value
    if hint is float and type(value) is int:
        return float(value)
    if type(value) is not hint:
        raise ValueError(f"{where}: expected {getattr(hint, '__name__', hint)}, got {value!r}")
    return value


def flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return what a tree of tables holds, by names with a dot between a table's and a key's."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        found |= (
            flat(value, f"{prefix}{name}.")
            if isinstance(value, Mapping)
            else {prefix + name: value}
        )
    return found
