"""The parts of a running server: settings, metrics, engine, and the sessions that are open."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from starlette.responses import JSONResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from cortado.model import checkpoint_reader
from cortado.model.audio.decode import Resampler
from cortado.model.backends.choice import load_recognizer
from cortado.model.features.framing import SAMPLE_RATE, STEP_SECONDS
from cortado.model.search.beam import asked_for
from cortado.model.streaming.interface import StreamingRecognizer
from cortado.model.streaming.snapshot import Snapshot, SnapshotError
from cortado.model.streaming.update import Update
from cortado.model.streaming.vad import load_vad
from cortado.server.engine import Engine, EngineFull
from cortado.server.keeping import Keeping, Lost
from cortado.server.live_stream import EngineStream
from cortado.server.metrics import Metrics
from cortado.server.origin import allowed
from cortado.server.protocol.messages import (
    MAX_SAMPLE_RATE,
    MIN_SAMPLE_RATE,
    SAMPLE_BYTES,
    ErrorCode,
    ProtocolError,
    Resume,
    Start,
)
from cortado.server.recording import Recorder
from cortado.server.seal import Seal, invalid
from cortado.server.session import Session
from cortado.server.settings import Settings
from cortado.server.transcript import Transcript

logger = logging.getLogger(__name__)


class Service:
    """One model, listening to many connections."""

    step_ms = round(STEP_SECONDS * 1000)

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
        self.draining = False
        self.engine = Engine(
            online,
            self.metrics,
            max_streams=settings.max_streams,
            buffer_seconds=settings.buffer_seconds,
            threads=settings.threads,
            headroom=settings.headroom,
            vad=vad,
        )
        self.keeping = Keeping(settings.keep_streams, settings.keep_seconds)
        self.live: dict[str, Session] = {}  # those that are to be kept if lost, by token
        self._seal = Seal(settings.state_key.get_secret_value() if settings.state_key else None)
        self.recorder: Recorder | None = None
        if settings.record:
            own = {"model": name, "backend": online.name, "digest": online.digest.hex()}
            own |= {"vad": vad.name} if vad else {}
            limits = settings.record_streams, settings.record_seconds
            self.recorder = Recorder(settings.record, own, *limits)
        self._facts = facts
        self._sessions: dict[Session, asyncio.Task[None]] = {}

    @property
    def ready(self) -> bool:
        """Whether new streams are let in."""
        return self.engine.alive and not self.draining

    def info(self) -> dict[str, Any]:
        """Return the facts of the model and the limits that a client meets."""
        return {
            "model": self.model_name,
            "sample_rate": SAMPLE_RATE,
            "step_ms": self.step_ms,
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

    def open_stream(
        self,
        sample_rate: int,
        listener: Callable[[Update], None],
        *,
        endpoints: bool = True,
        snapshot: Snapshot | None = None,
    ) -> EngineStream:
        """Return a stream of the engine: a new one, parted into utterances with `endpoints`, or
        that of the `snapshot`.

        Raises:
            ProtocolError: no stream is let in now, or the snapshot is of another model.
        """
        try:
            if self.draining:
                raise _shutting_down()
            if not self.engine.alive:
                raise ProtocolError(ErrorCode.INTERNAL_ERROR, "the model does not run")
            return self.engine.open(sample_rate, listener, endpoints=endpoints, snapshot=snapshot)
        except SnapshotError as wrong:
            error = invalid(str(wrong))
        except EngineFull as full:
            error = ProtocolError(ErrorCode.TOO_MANY_STREAMS, str(full))
        except ProtocolError as caught:
            error = caught
        self.metrics.refused.labels(error.code.value).inc()
        raise error

    def sealed(self, snapshot: Snapshot) -> str:
        """Return a suspended stream as a client carries it."""
        return self._seal.sign(snapshot.to_bytes())

    async def found(self, resume: Resume) -> Lost:
        """Return the stream that a client wants to go on with.

        Raises:
            ProtocolError: it is not here, or cannot be resumed here.
        """
        if resume.token is not None:
            return await self._claimed(resume.token, resume.characters)
        try:
            snapshot = Snapshot.from_bytes(self._seal.open(resume.state or ""))
        except SnapshotError as wrong:
            raise invalid(str(wrong)) from None
        transcript = Transcript(self.settings.transcript_characters, snapshot.characters)
        start = Start(encoding=resume.encoding)
        return Lost(start, snapshot, Resampler(SAMPLE_RATE), snapshot.received, transcript)

    async def _claimed(self, token: str, characters: int) -> Lost:
        """Return a stream that is kept; one that is live still is taken from its connection."""
        if session := self.live.get(token):
            session.fail(ErrorCode.TAKEN_OVER, "expected no other connection to resume the stream")
            await session.gone.wait()
        lost = self.keeping.take(token)
        if lost is None:
            raise ProtocolError(
                ErrorCode.UNKNOWN_STREAM,
                f"expected the token of a stream that was lost less than"
                f" {self.settings.keep_seconds:g} s ago, got another",
            )
        first, last = lost.transcript.omitted, lost.transcript.characters
        if not first <= characters <= last:
            self.keeping.put(token, lost)
            raise invalid(f"expected from {first} to {last} characters, got {characters}")
        return lost

    async def connect(self, socket: WebSocket) -> None:
        """Let a connection talk, unless it comes from a foreign page or is one too many."""
        origin, host = socket.headers.get("origin"), socket.headers.get("host")
        with suppress(WebSocketDisconnect):  # gone before it was let in
            if not allowed(origin, host, self.settings.allowed_origins):
                await self._refuse(socket, 403, "origin")
            elif len(self._sessions) >= self.settings.max_connections:
                await self._refuse(socket, 503, "too_many_connections")
            else:
                await self._talk(Session(socket, self))

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
        self.draining = True
        error = _shutting_down()
        for session in self._sessions:
            session.fail(error.code, error.message)
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
        folder, settings.backend, asked_for(settings.beam, settings.hold, lm), lm
    )
    logger.info("model loaded", extra={"model": folder.resolve().name, "backend": online.name})
    return Service(online, facts, folder.resolve().name, settings)


def _shutting_down() -> ProtocolError:
    return ProtocolError(
        ErrorCode.SHUTTING_DOWN, "expected a running server, got one that is shutting down"
    )
