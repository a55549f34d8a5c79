"""Opens the streams of connections: new ones in the engine, or resumed ones."""

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cortado.model.features.framing import SAMPLE_RATE, STEP_SECONDS
from cortado.model.search.phrases import PhrasesError
from cortado.model.streaming.snapshot import Snapshot, SnapshotError
from cortado.model.streaming.update import Update
from cortado.server.callers import caller
from cortado.server.detached import DetachedStream
from cortado.server.engine import Engine, EngineFull
from cortado.server.engine_stream import EngineStream
from cortado.server.metrics import Metrics
from cortado.server.protocol.events import ServerFacts
from cortado.server.protocol.messages import ErrorCode, ProtocolError, Resume, Start
from cortado.server.protocol.transcript import ResumePoint, Transcript
from cortado.server.recorder import Recorder
from cortado.server.resampling import StreamResampler
from cortado.server.resumable import ResumableStreams
from cortado.server.settings import Settings
from cortado.server.signing import Signer, invalid_state, state_key
from cortado.server.store import SqliteStore, Store, open_store

STEP_MS = round(STEP_SECONDS * 1000)
TOKEN_BYTES = 18  # of chance in a token

logger = logging.getLogger(__name__)


class Streams:
    """Lets streams in, and finds those that go on over another connection."""

    engine: Engine  # of new streams, as `use` has it

    def __init__(self, metrics: Metrics, settings: Settings) -> None:
        """Find the store and the key of streams that go on; `use` says where they open."""
        self.metrics, self.settings = metrics, settings
        self.draining = asyncio.Event()  # the server stops: no stream is let in, uploads end
        store = open_store(settings.store, settings.keep_streams + settings.max_streams)
        try:
            self.signer = Signer(_key(settings, store))
        except (ValueError, OSError):
            if store:
                store.close()
            raise
        self.resumable = ResumableStreams(settings, store, self.signer, metrics.store_failures)

    def use(self, engine: Engine, model: str, recorder: Recorder | None) -> None:
        """Open new streams of `engine` from now on, whose model has the name `model`."""
        self.engine, self._model, self.recorder = engine, model, recorder

    def facts(self, session: str) -> ServerFacts:
        """Return what `ready` says of the server to a stream that opens now."""
        return ServerFacts(session, self._model, STEP_MS, self.engine.recognizer.lookahead_ms)

    def token(self, message: Start | Resume) -> str | None:
        """Return the token of a stream whose client may come back; None for any other."""
        token = message.token if isinstance(message, Resume) else None
        if not self.resumable.enabled or not (message.keep or token):
            return None
        return token or secrets.token_urlsafe(TOKEN_BYTES)

    def open(self, start: Start, on_update: Callable[[Update], None]) -> EngineStream:
        """Return a new stream of the engine.

        Raises: ProtocolError if no stream is let in now.
        """
        with self._counted():
            return self._opened(start, on_update)

    async def resume(
        self, resume: Resume, on_update: Callable[[Update], None]
    ) -> tuple[EngineStream, ResumePoint]:
        """Return the stream that a client resumes, and where; one with a connection loses that.

        Raises: ProtocolError if there is no such stream, or it cannot be resumed here or now.
        """
        with self._counted():
            if resume.token is None:
                return self._gone_on(self._unsigned(resume), on_update)
            async with self.resumable.claimed(resume.token) as found:
                if found is None:
                    raise ProtocolError(
                        ErrorCode.UNKNOWN_STREAM,
                        f"expected the token of a stream that was lost less than"
                        f" {self.settings.keep_seconds:g} s ago, got another",
                    )
                found.check(resume)
                apart = self.resumable.suspected.get(resume.token, 0)
                return self._gone_on(found, on_update, apart)

    def _gone_on(
        self, found: DetachedStream, on_update: Callable[[Update], None], apart: int = 0
    ) -> tuple[EngineStream, ResumePoint]:
        stream = self._opened(found.point.start, on_update, found.snapshot, apart)
        stream.go_on(found.resampler, found.point.received)
        return stream, found.point

    def _opened(
        self,
        start: Start,
        on_update: Callable[[Update], None],
        snapshot: Snapshot | None = None,
        apart: int = 0,
    ) -> EngineStream:
        if self.draining.is_set():
            raise shutting_down()
        if stalled := self.engine.stalled:  # the machine has other work, or was asleep
            message = f"expected a model that keeps up, got a step of {stalled:.1f} s so far"
            raise ProtocolError(ErrorCode.TOO_MANY_STREAMS, message)
        if not self.engine.alive:
            raise ProtocolError(ErrorCode.INTERNAL_ERROR, "the model does not run")
        try:
            return self.engine.open(start, on_update, snapshot=snapshot, apart=apart)
        except SnapshotError as wrong:
            raise invalid_state(str(wrong)) from None
        except PhrasesError as wrong:
            raise ProtocolError(ErrorCode.INVALID_MESSAGE, f"phrases: {wrong}") from None
        except EngineFull as full:
            raise ProtocolError(ErrorCode.TOO_MANY_STREAMS, str(full)) from None

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Count a stream that is not let in."""
        try:
            yield
        except ProtocolError as error:
            self.metrics.refused.labels(error.code.value).inc()
            logger.warning("stream refused", extra={"code": error.code.value} | caller.get().facts)
            raise

    def _unsigned(self, resume: Resume) -> DetachedStream:
        """Return the stream that a client has brought.

        Raises: ProtocolError if it is damaged, or of another key or model.
        """
        try:
            snapshot = Snapshot.from_bytes(self.signer.unsign(resume.state or ""))
        except SnapshotError as wrong:
            raise invalid_state(str(wrong)) from None
        most, before = self.settings.transcript_characters, snapshot.characters
        transcript = Transcript(most, before, snapshot.most_alternatives)
        start = Start(encoding=resume.encoding)
        point = ResumePoint(start, snapshot.received, transcript, snapshot.position)
        return DetachedStream(point, snapshot, StreamResampler(SAMPLE_RATE))


def _key(settings: Settings, store: Store | None) -> str | None:
    """Return the key that signs streams; None for one of this process.

    Raises: ValueError if a store that servers share lacks a key that they share.
    """
    if settings.state_key is not None:
        return settings.state_key.get_secret_value()
    if store is None:
        return None
    if not isinstance(store, SqliteStore):
        raise ValueError("expected a state_key, which servers with one store share, got none")
    return state_key(store.path.parent)


def shutting_down() -> ProtocolError:
    """Return the error of a server that is being stopped."""
    return ProtocolError(
        ErrorCode.SHUTTING_DOWN, "expected a running server, got one that is shutting down"
    )
