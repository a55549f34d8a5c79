"""The addresses of the reference."""

from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, Response

from cortado.server.reference.asyncapi import document
from cortado.server.reference.page import STYLE, page


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
