"""The web application: the stream, the page, and the endpoints for operators."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from typing import Any

from fastapi import Depends, FastAPI, Request, Response, WebSocket
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from cortado.server import metrics, web
from cortado.server.access import OPERATOR, Refused
from cortado.server.doors.deepgram import routes as deepgram
from cortado.server.doors.openai import routes as openai
from cortado.server.doors.own import Own
from cortado.server.doors.vosk import Vosk
from cortado.server.reference.page import add_reference
from cortado.server.service import Service

SECRET_SECONDS = 60  # for which a secret of our own lets connections in
# Why an address that is not for everybody refuses.
UNKNOWN: dict[int | str, dict[str, Any]] = {
    401: {"description": "The server wants an API key, and there was none or an unknown one."},
    403: {"description": "The page is another site's."},
}
NO_SECRET: dict[int | str, dict[str, Any]] = UNKNOWN | {
    403: {"description": "The page is another site's, or a secret asks for another."}
}
NOT_RELOADED: dict[int | str, dict[str, Any]] = UNKNOWN | {
    403: {"description": "The page is another site's, or the caller is not the operator."},
    409: {"description": "The checkpoint cannot be used."},
    503: {"description": "The server is being stopped."},
}


def create_app(service: Service, page: Callable[[], Awaitable[bytes]] | None = None) -> FastAPI:
    """Return the application around `service`, whose engine runs as long as it does.

    Args:
        service: what answers.
        page: gives the page of metrics, if it is not that of this process alone.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.engine.start()
        with suppress(asyncio.CancelledError):  # by a second signal, which cuts the end short
            yield
            await service.drain()
            await service.stop()

    app = FastAPI(
        title="Cortado",
        version=version("cortado-asr"),
        lifespan=lifespan,
        docs_url=None,  # FastAPI's pages load scripts of another site
        redoc_url=None,
        redirect_slashes=False,  # what no route answers is the page's
    )
    names = {name.lower() for name in (service.settings.host, *service.settings.allowed_hosts)}
    if origins := service.settings.allowed_origins:
        # Their pages may read what is answered, so a client there knows why it was refused.
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )
    app.add_middleware(web.NormalRequests)
    app.add_middleware(web.OneLength)
    app.add_middleware(web.SecurityHeaders, names=names, refusals=service.metrics.refused)
    if service.tracing:
        service.tracing.add_to(app)

    @app.exception_handler(HTTPException)
    async def failed(request: Request, error: HTTPException) -> JSONResponse:
        return web.failed(request, error)

    @app.websocket("/v1/stream")
    async def stream(socket: WebSocket) -> None:
        await service.connect(socket, Own())

    @app.get("/v1/info", dependencies=[Depends(service.access.known)], responses=UNKNOWN)
    async def info() -> dict[str, Any]:
        """Return the facts of the model, what audio is accepted, and the limits of a stream."""
        return service.info()

    @app.post("/v1/secrets", responses=NO_SECRET)
    async def secret(request: Request) -> dict[str, Any]:
        """Return a secret that stands for the caller's key, for pages; null without keys."""
        service.access.identify_by_key(request)
        made, _ = service.access.secret(SECRET_SECONDS)
        return {"secret": made if service.access.keys else None, "seconds": SECRET_SECONDS}

    @app.post("/reload", dependencies=[Depends(service.access.known)], responses=NOT_RELOADED)
    async def reload(request: Request) -> dict[str, str]:
        """Read the checkpoint again, and return the name of its model."""
        if not service.access.may_reload(request):
            message = f"expected the key named {OPERATOR}, or without keys a call of this machine"
            raise Refused(403, "operator", message)
        try:
            await service.reload()
        except ValueError as error:
            raise Refused(409, "checkpoint", str(error)) from error
        return {"model": service.model_name}

    @app.get("/health", responses={503: {"description": "The model does not run."}})
    async def health(response: Response) -> dict[str, str]:
        """Return whether the model runs."""
        if service.engine.alive:
            return {"status": "alive"}
        response.status_code = 503
        return {"status": "the model does not run"}

    @app.get("/ready", responses={503: {"description": "No stream is let in."}})
    async def ready(response: Response) -> dict[str, str]:
        """Return whether streams are let in, even if every slot is taken now."""
        if service.ready:
            return {"status": "ready"}
        response.status_code = 503
        draining = service.streams.draining.is_set()
        return {"status": "draining" if draining else "the model does not run"}

    @app.get("/metrics", dependencies=[Depends(service.access.known)], responses=UNKNOWN)
    async def exposition() -> Response:
        """Return the metrics for Prometheus."""
        found = await page() if page else service.metrics.exposition()
        return Response(found, media_type=metrics.CONTENT_TYPE)

    app.include_router(deepgram.routes(service))
    app.include_router(openai.routes(service))

    @app.websocket("/")
    async def vosk(socket: WebSocket) -> None:
        await service.connect(socket, Vosk(weighs_phrases=service.weighs_phrases))

    add_reference(app)

    @app.websocket("/{path:path}")
    async def nothing(socket: WebSocket) -> None:
        await socket.send_denial_response(web.failed(socket, HTTPException(404)))

    app.router.default = web.page()
    return app
