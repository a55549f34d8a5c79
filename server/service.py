"""The parts of a running server: settings, metrics, engine, and the sessions that are open."""

import asyncio
import logging
from contextlib import suppress
from typing import Any

from starlette.responses import JSONResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from cortado.model import checkpoint_reader
from cortado.model.backends.choice import load_recognizer
from cortado.model.features.framing import SAMPLE_RATE
from cortado.model.search.beam import beam_from_options
from cortado.model.streaming.interface import StreamingRecognizer
from cortado.model.streaming.vad import load_vad
from cortado.server.engine import Engine
from cortado.server.metrics import Metrics
from cortado.server.origin import allowed
from cortado.server.protocol.messages import MAX_SAMPLE_RATE, MIN_SAMPLE_RATE, SAMPLE_BYTES
from cortado.server.recorder import Recorder
from cortado.server.session import Session
from cortado.server.settings import Settings
from cortado.server.streams import STEP_MS, Streams, shutting_down

logger = logging.getLogger(__name__)


class Service:
    """One model, and the connections that speak to it."""

    def __init__(
        self, online: StreamingRecognizer, facts: dict[str, Any], name: str, settings: Settings
    ) -> None:
        """Serve a recogniser, with the facts of its card and its name.

        Raises:
            ValueError: a voice activity detector is wanted, and is not installed.
        """
        vad = load_vad() if settings.vad else None
        self.settings = settings
        self.metrics = Metrics()
        self.model_name = name
        self.lookahead_ms = online.lookahead_ms
        self.engine = Engine(
            online,
            self.metrics,
            max_streams=settings.max_streams,
            buffer_seconds=settings.buffer_seconds,
            threads=settings.threads,
            headroom=settings.headroom,
            vad=vad,
        )
        recorder: Recorder | None = None
        if settings.record:
            own = {"model": name, "backend": online.name, "digest": online.digest.hex()}
            own |= {"vad": vad.name} if vad else {}
            recorder = Recorder(settings.record, own, settings.record_streams)
        self.streams = Streams(self.engine, self.metrics, settings, name, recorder)
        self._facts = facts
        self._sessions: dict[Session, asyncio.Task[None]] = {}

    @property
    def ready(self) -> bool:
        """Whether new streams are let in."""
        return self.engine.alive and not self.streams.draining

    def info(self) -> dict[str, Any]:
        """Return the facts of the model and the limits that a client meets."""
        return {
            "model": self.model_name,
            "sample_rate": SAMPLE_RATE,
            "step_ms": STEP_MS,
            "lookahead_ms": self.lookahead_ms,
            "accepts": {
                "encodings": list(SAMPLE_BYTES),
                "min_sample_rate": MIN_SAMPLE_RATE,
                "max_sample_rate": MAX_SAMPLE_RATE,
            },
            "limits": self.settings.model_dump(
                include={
                    "max_streams",
                    "max_message_bytes",
                    "idle_timeout_seconds",
                    "max_stream_seconds",
                }
            ),
            "card": self._facts,
        }

    async def connect(self, socket: WebSocket) -> None:
        """Let a connection talk, unless it comes from a foreign page or is one too many."""
        origin, host = socket.headers.get("origin"), socket.headers.get("host")
        with suppress(WebSocketDisconnect):  # gone before it was let in
            if not allowed(origin, host, self.settings.allowed_origins):
                await self._refuse(socket, 403, "origin")
            elif len(self._sessions) >= self.settings.max_connections:
                await self._refuse(socket, 503, "too_many_connections")
            else:
                await self._talk(Session(socket, self.streams))

    async def _refuse(self, socket: WebSocket, status: int, reason: str) -> None:
        self.metrics.refused.labels(reason).inc()
        logger.warning("connection refused", extra={"reason": reason})
        await socket.send_denial_response(JSONResponse({"error": reason}, status))

    async def _talk(self, session: Session) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._sessions[session] = task
        try:
            await session.run()
        finally:
            del self._sessions[session]

    async def drain(self) -> None:
        """Let no stream in any more, and tell those that are live that the server goes."""
        self.streams.draining = True
        for session in self._sessions:
            session.fail(shutting_down())
        if self._sessions:
            await asyncio.wait(self._sessions.values(), timeout=self.settings.drain_timeout_seconds)


def load(settings: Settings) -> Service:
    """Return the service of the checkpoint that `settings` names.

    Raises:
        ValueError: there is none, or it is broken.
    """
    folder = settings.checkpoint or checkpoint_reader.DEFAULT
    facts = checkpoint_reader.read_card(folder)
    lm = settings.lm
    online = load_recognizer(
        folder, settings.backend, beam_from_options(settings.beam, settings.hold, lm), lm
    )
    logger.info("model loaded", extra={"model": folder.resolve().name, "backend": online.name})
    return Service(online, facts, folder.resolve().name, settings)
