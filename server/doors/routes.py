"""The doors: addresses at which other people's clients find what they expect."""

from fastapi import FastAPI, WebSocket

from cortado.server.doors.deepgram import routes as deepgram
from cortado.server.doors.openai import routes as openai
from cortado.server.doors.vosk import Vosk
from cortado.server.service import Service


def add_doors(app: FastAPI, service: Service) -> None:
    """Add the doors' addresses to `app`, at which `service` answers."""
    app.include_router(deepgram.routes(service))
    app.include_router(openai.routes(service))

    @app.websocket("/")
    async def vosk(socket: WebSocket) -> None:
        await service.connect(socket, Vosk())
