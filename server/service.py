"""The parts of a running server: settings, metrics, engine, and the sessions that are open."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from importlib.metadata import version
from typing import Any, get_args

from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect

from cortado.model import checkpoint_reader
from cortado.model.backends.choice import load_recognizer
from cortado.model.features.framing import SAMPLE_RATE
from cortado.model.search.settings import beam_from_options
from cortado.model.streaming.interface import StreamingRecognizer
from cortado.model.streaming.vad import load_vad
from cortado.server.access import Access, Refused
from cortado.server.channels import Channels
from cortado.server.connection import Socket
from cortado.server.credentials import credentials
from cortado.server.engine import Engine
from cortado.server.memory import bound_ffmpeg, freeze, give_back
from cortado.server.metrics import Metrics
from cortado.server.protocol.dialect import Dialect
from cortado.server.protocol.messages import (
    MAX_SAMPLE_RATE,
    MIN_SAMPLE_RATE,
    AnyEncoding,
    ErrorCode,
)
from cortado.server.recorder import Recorder, Writer
from cortado.server.session import Session
from cortado.server.settings import Settings
from cortado.server.streams import STEP_MS, Streams, shutting_down
from cortado.server.threads import in_thread
from cortado.server.tracing import Tracing
from cortado.server.web import refused

WRITE_SECONDS = 2.0  # that a stop waits for what is recorded to be written
RELOAD_SECONDS = 600.0  # that a model may take to be read again; a first start takes minutes
RETIRE_LOOK_SECONDS = 1.0  # between two looks at whether a retired engine has streams
BESIDE_STATE_BYTES = 24_576  # that a `resume` message has at most beside the model's state

Loaded = tuple[Engine, dict[str, Any], str]  # the facts of the model's card, and its name
Load = asyncio.Future[Loaded]

logger = logging.getLogger(__name__)


class Service:
    """One model, and the connections that speak to it."""

    def __init__(
        self, online: StreamingRecognizer, facts: dict[str, Any], name: str, settings: Settings
    ) -> None:
        """Serve a recogniser, with the facts of its card and its name.

        Raises: ValueError if a voice activity detector or traces are wanted, and not installed.
        """
        self._vad = load_vad() if settings.vad else None
        self._given, self.settings = settings, roomy(settings, online)
        settings = self.settings
        self.metrics = Metrics()
        self.tracing = Tracing(settings.traces) if settings.traces else None
        self.streams = Streams(self.metrics, settings)
        self.access = Access(settings, self.streams.signer, self.metrics.refused)
        self._sessions: dict[Session, asyncio.Task[None]] = {}
        self._retired: dict[Engine, asyncio.Task[None]] = {}  # that step their last streams
        self._reloading = asyncio.Lock()
        self._loads = set[Load]()  # that run, those among them that were given up
        self._writer = Writer(settings.record_streams) if settings.record else None
        self._serve(self._engine(online), facts, name)

    def _engine(self, online: StreamingRecognizer) -> Engine:
        """Return an engine of a recogniser; it takes seconds, for its speed is measured."""
        return Engine(
            online,
            self.metrics,
            max_streams=self.settings.max_streams,
            buffer_seconds=self.settings.buffer_seconds,
            threads=self.settings.threads,
            headroom=self.settings.headroom,
            vad=self._vad,
            elsewhere=lambda: sum(engine.active for engine in self._retired),
        )

    def _serve(self, engine: Engine, facts: dict[str, Any], name: str) -> None:
        """Serve new streams by an engine."""
        online, vad = engine.recognizer, self._vad
        recorder: Recorder | None = None
        if self.settings.record and self._writer:
            own = {"model": name, "backend": online.name, "digest": online.digest.hex()}
            own |= {"vad": vad.name} if vad else {}
            recorder = Recorder(
                self.settings.record,
                own,
                self.metrics.recordings_failed,
                self._writer,
            )
        self.engine, self._facts, self.model_name = engine, facts, name
        self.streams.use(engine, name, recorder)
        self.metrics.build.clear()
        self.metrics.build.labels(version("cortado-asr"), name, online.name).set(1)

    async def reload(self) -> None:
        """Read the model again, for new streams; those that are live stay with theirs.

        Raises:
            ValueError: the checkpoint is missing, broken or not read in RELOAD_SECONDS; the model
                stays as it was.
            Refused: the server is being stopped, which would not know of another engine.
        """
        async with self._reloading:
            load = in_thread(self._load, "loader")
            self._loads.add(load)
            load.add_done_callback(self._loaded)
            await asyncio.wait([load], timeout=RELOAD_SECONDS)  # which does not cancel it
            if not load.done():
                expected = f"expected a checkpoint that loads within {RELOAD_SECONDS:g} s"
                raise ValueError(f"{expected}, got one that does not: look at its disk")
            (engine, facts, name), old = load.result(), self.engine
            if self.streams.draining.is_set():
                raise Refused(503, ErrorCode.SHUTTING_DOWN, shutting_down().message)
            self._serve(engine, facts, name)
            engine.start()  # its thread: once nothing can fail any more
            old.retire()
            self._retired[old] = asyncio.create_task(self._see_off(old))
        logger.info("model reloaded", extra={"model": name, "backend": engine.recognizer.name})

    def _load(self) -> Loaded:
        """Return an engine of the model that is read again, the facts of its card and its name."""
        online, facts, name = read_model(self.settings)
        wanted = roomy(self._given, online).max_message_bytes
        if wanted > (most := self.settings.max_message_bytes):  # as every connection has it
            expected = f"expected a model whose suspended streams fit into {most} bytes"
            raise ValueError(f"{expected}, got one that takes {wanted}: restart the server for it")
        return self._engine(online), facts, name

    def _loaded(self, load: Load) -> None:
        """Forget a load that has ended; if it was given up, nobody else asks why it failed."""
        self._loads.discard(load)
        load.exception()

    async def _see_off(self, engine: Engine) -> None:
        """Stop an engine once its last stream is over."""
        while engine.active:
            await asyncio.sleep(RETIRE_LOOK_SECONDS)
        await asyncio.to_thread(engine.stop)
        del self._retired[engine], engine
        freeze()  # what is left: it has let go of all
        await asyncio.to_thread(give_back)  # else each reload would take more

    async def stop(self) -> None:
        """Stop all engines, write what is recorded, close the store, and send the last traces."""
        for task in self._retired.values():
            task.cancel()
        for engine in self.engines:
            engine.stop()
        if self._writer and not await asyncio.to_thread(self._writer.wait, WRITE_SECONDS):
            logger.warning("recordings not written")
        await self.streams.resumable.close()
        if self.tracing:
            self.tracing.stop()

    @property
    def engines(self) -> list[Engine]:
        """That of new streams, and the retired ones, which step their last."""
        return [self.engine, *self._retired]

    @property
    def computes(self) -> bool:
        """Whether a thread is in the midst of a model, which it still may be after `stop`."""
        return bool(self._loads) or any(engine.running for engine in self.engines)

    @property
    def failure(self) -> str | None:
        """Why one of the engines will never step a stream again; None if all will."""
        return next(filter(None, (one.failure for one in self.engines)), None)

    @property
    def ready(self) -> bool:
        """Whether new streams are let in."""
        return self.engine.alive and not self.streams.draining.is_set()

    @property
    def weighs_phrases(self) -> bool:
        """Whether the search can weigh phrases: it is no greedy scan, and writes words."""
        online = self.engine.recognizer
        return online.beam.width > 1 and " " in online.vocabulary.names

    def info(self) -> dict[str, Any]:
        """Return the facts of the model and the limits that a client meets."""
        return {
            "model": self.model_name,
            "sample_rate": SAMPLE_RATE,
            "step_ms": STEP_MS,
            "lookahead_ms": self.engine.recognizer.lookahead_ms,
            "accepts": {
                "encodings": list(get_args(AnyEncoding)),
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

    async def connect(
        self,
        socket: WebSocket,
        *dialects: Dialect,
        refusal: Callable[[Refused], Response] = refused,
    ) -> None:
        """Let a websocket talk in a dialect, unless it is refused, which is answered by `refusal`.

        Of several each is that of one channel of the audio, which is a stream of its own.
        """
        with suppress(WebSocketDisconnect):  # gone before it was let in
            try:
                counted = self.access.admit(socket, len(dialects))
            except Refused as error:
                await socket.send_denial_response(refusal(error))
                return
            with counted:
                await socket.accept(credentials(socket.headers).subprotocol)
                if len(dialects) > 1:
                    talks = [partial(self.talk, dialect=one) for one in dialects]
                    await Channels(socket, len(dialects)).talk(talks)
                else:
                    await self.talk(socket, *dialects)

    async def talk(self, socket: Socket, dialect: Dialect) -> None:
        """Serve the client at the other end of `socket`, which is let in."""
        session = Session(socket, self.streams, dialect)
        task = asyncio.current_task()
        assert task is not None
        self._sessions[session] = task
        try:
            tracing = (
                self.tracing.stream(session.id, session.facts) if self.tracing else nullcontext()
            )
            with tracing:
                await session.run()
        finally:
            del self._sessions[session]

    async def drain(self) -> None:
        """Let no stream in any more, and tell those that are live that the server goes."""
        self.streams.draining.set()
        for session in self._sessions:
            session.fail(shutting_down())
        if self._sessions:
            await asyncio.wait(self._sessions.values(), timeout=self.settings.drain_timeout_seconds)


def roomy(settings: Settings, online: StreamingRecognizer) -> Settings:
    """Return the settings with messages as large as a suspended stream, if no other size is set."""
    if "max_message_bytes" in settings.model_fields_set:
        return settings
    suspended = (online.stepper(1).bytes_per_stream + BESIDE_STATE_BYTES) * 4 // 3  # in base64
    most = max(settings.max_message_bytes, suspended)
    return settings.model_copy(update={"max_message_bytes": most})


def read_model(settings: Settings) -> tuple[StreamingRecognizer, dict[str, Any], str]:
    """Return the recogniser of the checkpoint that `settings` names, its facts and its name.

    Raises: ValueError if there is none, or it is broken.
    """
    folder = settings.checkpoint or checkpoint_reader.DEFAULT
    facts = checkpoint_reader.read_card(folder)
    lm = settings.lm
    online = load_recognizer(
        folder, settings.backend, beam_from_options(settings.beam, settings.hold, lm), lm
    )
    return online, facts, folder.resolve().name


def load(settings: Settings) -> Service:
    """Return the service of the checkpoint that `settings` names.

    Raises: ValueError if there is none, or it is broken.
    """
    bound_ffmpeg()
    return Service(*read_model(settings), settings)
