"""The web application: the stream, the page, and the endpoints for operators."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Response, WebSocket

from cortado.server import metrics, web
from cortado.server.service import Service


def create_app(service: Service) -> FastAPI:
    """Return the application around `service`, whose engine runs as long as it does."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.engine.start()
        yield
        await service.drain()
        service.engine.stop()

    app = FastAPI(title="Cortado", lifespan=lifespan, openapi_url=None)
    app.add_middleware(web.SecurityHeaders)

    @app.websocket("/v1/stream")
    async def stream(socket: WebSocket) -> None:
        await service.connect(socket)

    @app.get("/v1/info")
    async def info() -> dict[str, Any]:
        return service.info()

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "alive"}

    @app.get("/ready")
    async def ready(response: Response) -> dict[str, str]:
        if service.ready:
            return {"status": "ready"}
        response.status_code = 503
        return {"status": "draining" if service.streams.draining else "the model does not run"}

    @app.get("/metrics")
    async def exposition() -> Response:
        return Response(service.metrics.exposition(), media_type=metrics.CONTENT_TYPE)

    app.mount("/", web.page())
    return app
