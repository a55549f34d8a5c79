"""The web page's files, and what every request and answer passes: addresses, lengths, headers."""

import logging
import mimetypes
from collections.abc import Collection, Mapping
from http import HTTPStatus
from pathlib import Path

from prometheus_client import Counter
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cortado.server.access import Refused
from cortado.server.callers import unmapped
from cortado.server.origin import known_host
from cortado.server.protocol.parsing import quoted

FOLDER = Path(__file__).resolve().parent.parent / "clients" / "web"

# Python asks the system for types, and systems differ; a worklet of another type does not load.
TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
}

LENGTHS = {"content-length", "transfer-encoding"}

HEADERS = {
    # Blobs are recordings that somebody has opened, whose length is asked for.
    "Content-Security-Policy": "default-src 'self'; media-src 'self' blob:; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'; object-src 'none'",
    "Permissions-Policy": "microphone=(self), camera=(), geolocation=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-cache",  # kept, but asked about: a page and its scripts stay one version
}

logger = logging.getLogger(__name__)


def page() -> StaticFiles:
    """Return the application that serves the web page's files."""
    for suffix, kind in TYPES.items():
        mimetypes.add_type(kind, suffix)
    return Page(directory=FOLDER, html=True, check_dir=False)


class Page(StaticFiles):
    """The files; what is none of them is not there, unless by another method."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return the answer to a request for a file, which no address of the API has answered."""
        found = await super().get_response(path, {**scope, "method": "GET"})
        if scope["method"] != "GET":
            raise HTTPException(405, headers={"Allow": "GET, HEAD"})
        return found


def refused(error: Refused) -> JSONResponse:
    """Return the answer to what is not let in, in our own form."""
    return _refusal(error.status_code, error.reason, error.detail, error.headers)


def failed(connection: HTTPConnection, error: HTTPException) -> JSONResponse:
    """Return the answer to what is not let in or no address answers, in our own form."""
    if isinstance(error, Refused):
        return refused(error)
    status, scope = error.status_code, connection.scope
    headers = error.headers or {}
    messages = {
        404: f"expected an address that /docs lists, got {quoted(scope['path'])}",
        405: f"expected {headers.get('Allow')}, got {scope.get('method')}",
    }
    reason = HTTPStatus(status).name.lower()
    return _refusal(status, reason, messages.get(status, error.detail), headers)


class NormalRequests:
    """Middleware: rewrites requests to the method and path that routes know.

    HEAD is answered as GET, whose body the server leaves out (RFC 9110, 9.3.2). A whole address, as
    for a proxy, means its path (RFC 9112, 3.2.2), but not where a proxy has passed it on. Of such
    an address its rules have not seen the path: asked for `http:http://x/metrics`, Caddy asks for
    `http://x/metrics`, whatever it does with `/metrics`.
    """

    def __init__(self, app: ASGIApp) -> None:
        """Serve `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope.get("method") == "HEAD":
            scope = {**scope, "method": "GET"}
        is_whole = (path := scope.get("path", "")).lower().startswith(("http://", "https://"))
        if is_whole and "x-forwarded-for" not in Headers(scope=scope):
            scope = {**scope, "path": f"/{''.join(path.split('/', 3)[3:])}"}
        await self._app(scope, receive, send)


class OneLength:
    """Middleware: no answer but a refusal to a request that tells the length of its body twice.

    A proxy before the server might believe the other one, and take what follows for another
    request (RFC 9112, 6.3).
    """

    def __init__(self, app: ASGIApp) -> None:
        """Serve `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        answer = self._app
        if scope["type"] == "http" and set(Headers(scope=scope)) >= LENGTHS:
            message = "expected Content-Length or Transfer-Encoding, got both"
            answer = _refusal(400, "invalid_request", message, {"Connection": "close"})
        await answer(scope, receive, send)


class SecurityHeaders:
    """Middleware: `HEADERS` on every answer, and no answer but a refusal for unknown hosts."""

    def __init__(self, app: ASGIApp, names: Collection[str], refusals: Counter) -> None:
        """Serve `app` by these names, which are in lower case; count what is refused."""
        self._app, self._names = app, names
        self._refused = refusals.labels("unknown_host")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        host = None if scope["type"] == "lifespan" else Headers(scope=scope).get("host")
        answer: ASGIApp = self._app
        if not known_host(host, self._names):
            self._refused.inc()
            address, _ = scope.get("client") or ("", 0)
            facts = {"reason": "unknown_host", "address": unmapped(address)}
            logger.warning("connection refused", extra=facts)
            answer = unknown(host)
        await answer(scope, receive, send_with_headers)


def unknown(host: str | None) -> JSONResponse:
    """Return the refusal of a request for a name that this server does not have."""
    message = f"expected localhost, an address or a name in CORTADO_ALLOWED_HOSTS, got {host!r}"
    return _refusal(421, "unknown_host", message)


def _refusal(
    status: int, reason: str, message: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """Return a refusal in our own form."""
    return JSONResponse({"error": reason, "message": message}, status, headers)
