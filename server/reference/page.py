"""The reference of all addresses: one page, which needs no script and no other site."""

import re
from html import escape
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, Response

from cortado.server.reference.asyncapi import document
from cortado.server.reference.tables import kind

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
body { color: #1b1b1b; background: #fff; }
h2 { margin-top: 3rem; border-bottom: 1px solid #bbb; }
h3 { margin: 2rem 0 0.25rem; }
table { border-collapse: collapse; margin: 0.5rem 0 1rem; }
th, td { border: 1px solid #bbb; padding: 0.2rem 0.6rem; text-align: left; vertical-align: top; }
code { font: 0.9em ui-monospace, monospace; }
a { color: #0645ad; }
@media (prefers-color-scheme: dark) {
  body { color: #e6e6e6; background: #161616; }
  th, td, h2 { border-color: #555; }
  a { color: #8ab4f8; }
}
"""


def add_reference(app: FastAPI) -> None:
    """Add `/docs` and what it is made of; the addresses that `app` has by then are in it."""
    sockets = document(version("cortado-asr"))

    @app.get("/asyncapi.json", include_in_schema=False)
    async def asyncapi() -> dict[str, Any]:
        return sockets

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(page(app.openapi(), sockets))

    @app.get("/docs.css", include_in_schema=False)
    async def style() -> Response:
        return Response(STYLE, media_type="text/css")


def page(http: dict[str, Any], sockets: dict[str, Any]) -> str:
    """Return the page of an OpenAPI and an AsyncAPI document."""
    schemas = http.get("components", {}).get("schemas", {})
    parts = [
        _operation(method.upper(), path, operation)
        for path, methods in http["paths"].items()
        for method, operation in methods.items()
    ]
    parts.append("<h2>Websockets</h2>")
    parts += [_channel(sockets, name, one) for name, one in sockets["channels"].items()]
    parts.append("<h2>Types of the answers over HTTP</h2>")
    parts += [_schema(name, one) for name, one in sorted(schemas.items())]
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Cortado's addresses</title>
<link rel="stylesheet" href="/docs.css">
</head>
<body>
<h1>Cortado's addresses</h1>
<p>For programs: <a href="/openapi.json">OpenAPI</a> of the HTTP part,
<a href="/asyncapi.json">AsyncAPI</a> of the websockets.</p>
<h2>HTTP</h2>
{"".join(parts)}
</body>
</html>
"""


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    asked = {
        one["name"]: {**one["schema"], "description": one.get("description", "")}
        for one in operation.get("parameters", [])
    }
    body = operation.get("requestBody", {}).get("content", {})
    given = "".join(
        f"<p>Body: <code>{escape(kind)}</code></p>{_fields(one.get('schema', {}))}"
        for kind, one in body.items()
    )
    answers = ", ".join(f"<code>{escape(status)}</code>" for status in operation["responses"])
    text = escape(operation.get("description", operation.get("summary", "")))
    heading = f"<h3><code>{method} {escape(path)}</code></h3><p>{text}</p>"
    return f"{heading}{_fields({'properties': asked})}{given}<p>Answers: {answers}</p>"


def _channel(sockets: dict[str, Any], name: str, channel: dict[str, Any]) -> str:
    listens = sockets["operations"][f"{name}Listens"]["messages"]
    told = {one["$ref"].rpartition("/")[2] for one in listens}
    schemas = sockets["components"]["schemas"]
    found = []
    for title, message in channel["messages"].items():
        who = "from the client" if title in told else "from the server"
        heading = f"<h4><code>{escape(title)}</code>, {who}</h4><p>{escape(message['summary'])}</p>"
        reference = message["payload"].get("$ref", "").rpartition("/")[2]
        found.append(heading + _fields(schemas.get(reference, {})))
    address, text = escape(channel["address"]), escape(channel["description"])
    return f"<h3><code>WS {address}</code></h3><p>{text}</p>{''.join(found)}"


def _schema(name: str, schema: dict[str, Any]) -> str:
    text = escape(schema.get("description", ""))
    heading = f"<h3 id='{escape(name)}'><code>{escape(name)}</code></h3>"
    return f"{heading}<p>{text}</p>{_fields(schema)}"


def _fields(schema: dict[str, Any]) -> str:
    """Return the fields of a type as a table; nothing for one without fields."""
    required = schema.get("required", [])
    rows = [
        f"<tr><td><code>{escape(name)}</code></td><td>{_marked(kind(one))}</td>"
        f"<td>{_marked(one.get('description', 'always' if name in required else ''))}</td></tr>"
        for name, one in schema.get("properties", {}).items()
    ]
    head = "<tr><th>field</th><th>type</th><th></th></tr>"
    return f"<table>{head}{''.join(rows)}</table>" if rows else ""


def _marked(text: str) -> str:
    """Return a text whose code is in backticks as HTML."""
    return re.sub(r"`(.+?)`", r"<code>\1</code>", escape(text))
