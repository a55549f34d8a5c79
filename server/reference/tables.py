"""The tables of docs/protocol.md and docs/settings.md, made from the program's own types.

`make reference` writes them: `python -m cortado.server.reference.tables docs`.
"""

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from cortado.server.protocol.errors import REASONS
from cortado.server.protocol.messages import ClientMessage, ServerMessage
from cortado.server.settings import ENV_PREFIX, flag, listed

TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
KINDS = {"integer": "whole number", "string": "text", "boolean": "`true` or `false`"}
MANY = 4  # values of a field; of more its meaning tells


def protocol(page: str) -> str:
    """Return the page of the protocol with the tables of its messages and errors made anew."""
    for model in (*get_args(ClientMessage), *get_args(ServerMessage)):
        heading = f"\n### `{model.model_fields['type'].default}`\n"
        page = _replaced(page, heading, _fields(model, model in get_args(ClientMessage)))
    return _replaced(page, "\nThe server sends characters that were committed before", _errors())


def settings(page: str) -> str:
    """Return the page of the settings with its table made anew."""
    return _replaced(page, "# Settings of the server\n", _settings())


def kind(schema: dict[str, Any]) -> str:
    """Return the type of a field of a JSON schema in words, values in backticks."""
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if 0 < len(values) <= MANY:
        return " or ".join(f"`{json.dumps(value)}`" for value in values)
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(kind(one) for one in schema["anyOf"] if one.get("type") != "null")
    if schema.get("type") == "array":
        return f"list of {kind(schema.get('items', {}))}s"
    name = str(schema.get("type", "anything"))
    least, most = schema.get("minimum"), schema.get("maximum")
    return KINDS.get(name, name) + (f", {least} to {most}" if least and most else "")


def _replaced(page: str, place: str, table: str) -> str:
    """Return the page with another first table after the text `place`, which is there once."""
    before, after = page.split(place)
    return before + place + TABLE.sub(lambda _: table, after, count=1)


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = list(heads)
    lines = [" | ".join(cells) for cells in (heads, *rows)]
    lines.insert(1, " | ".join("---" for _ in heads))
    return "".join(f"| {' '.join(line.split())} |\n" for line in lines)


def _fields(model: type[BaseModel], is_said: bool) -> str:
    """Return a table of a message's fields; those of a client have defaults."""
    schema = model.model_json_schema()
    rows = []
    for name, field in model.model_fields.items():
        one = schema["properties"][name]
        one = schema.get("$defs", {}).get(kind(one), one)  # such as the codes of errors
        meaning = schema["description"] if name == "type" else field.description or ""
        cells = [f"`{name}`", kind(one).replace("Words", "words").replace("Texts", "texts")]
        rows.append([*cells, *([_default(name, field)] if is_said else []), meaning])
    return _table(["field", "type", *(["default"] if is_said else []), "meaning"], rows)


def _default(name: str, field: FieldInfo) -> str:
    is_none = name == "type" or field.is_required() or field.default is None
    return "" if is_none else f"`{json.dumps(field.default)}`"


def _errors() -> str:
    rows = [(f"`{code}`", str(one.close), one.why, one.helps) for code, one in REASONS.items()]
    return _table(("code", "close", "why", "what helps"), rows)


def _settings() -> str:
    rows = []
    for name, field in listed().items():
        default = "" if field.default in (None, ()) else f"`{field.default}`"
        names = (f"`{ENV_PREFIX}{name.upper()}`", f"`--{flag(name)}`")
        rows.append((*names, default, field.description or ""))
    return _table(("environment", "flag", "default", "meaning"), rows)


PAGES = {"protocol.md": protocol, "settings.md": settings}


if __name__ == "__main__":
    for name, made in PAGES.items():
        path = Path(sys.argv[1]) / name
        path.write_text(made(path.read_text("utf-8")), "utf-8")
