"""OpenAI's Realtime transcription sessions, `WS /v1/realtime`."""

import base64
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from pydantic import TypeAdapter, ValidationError

from cortado.model.captions import Word, words_of
from cortado.server.doors.audio import Decoder, decoder
from cortado.server.doors.failures import Misunderstood, understanding
from cortado.server.doors.openai.configuration import Configuration
from cortado.server.doors.openai.delta import Deltas
from cortado.server.doors.openai.messages import (
    Append,
    Clear,
    Cleared,
    ClientEvent,
    Commit,
    Committed,
    Completed,
    Delta,
    Duration,
    Event,
    Failed,
    Fault,
    Item,
    ItemAdded,
    LogProb,
    Said,
    SessionEvent,
    SpeechStarted,
    SpeechStopped,
    Update,
)
from cortado.server.doors.words import text_of
from cortado.server.protocol import messages as own
from cortado.server.protocol.dialect import Dialect, Read, Reply, Written
from cortado.server.protocol.messages import ErrorCode, ProtocolError
from cortado.server.protocol.parsing import QUOTED, check_fields, explained
from cortado.server.protocol.transcript import Transcript

KINDS = (
    "session.update",
    *(f"input_audio_buffer.{name}" for name in ("append", "commit", "clear")),
)
EXPECTED = f"expected a JSON object of type {', '.join(KINDS)}"
_CLIENT: TypeAdapter[ClientEvent] = TypeAdapter(ClientEvent)
OURS = {ErrorCode.INTERNAL_ERROR, ErrorCode.SHUTTING_DOWN, ErrorCode.TOO_MANY_STREAMS}


class Realtime(Dialect):
    """The dialect of one session; a piece of speech is an item."""

    def __init__(self, session: str, configuration: Configuration, max_characters: int) -> None:
        """Begin the session of that id; an item repeats at most `max_characters`."""
        self._session = session
        self._configuration = configuration
        self._decoder: Decoder | None = None  # once there is audio
        self._waiting = 0  # bytes of audio since the last item was asked for
        self._asked: list[bool] = []  # for each flush on its way: whether it makes an item
        self._events, self._items = 0, 0
        self._before: str | None = None  # the last item that was committed
        self._max_characters = max_characters
        self._transcript = Transcript(max_characters)  # of the item
        self._deltas = Deltas()  # of the item
        self._begin = 0.0  # seconds: where the item begins

    def greeting(self) -> list[str]:
        """Return how the session stands."""
        return [self._state("session.created")]

    def read(self, data: str | bytes) -> Iterator[Read]:
        """Yield what a message means; one that means nothing is answered with an error."""
        try:
            check_fields(data)
            message = _CLIENT.validate_json(data)
        except ProtocolError as error:
            yield self._failed(error.message, None)
        except ValidationError as error:
            yield self._failed(explained(error, EXPECTED), _name(data))
        else:
            yield from self._obey(message)

    def _obey(self, message: ClientEvent) -> Iterator[Read]:
        try:
            match message:
                case Update():
                    yield self._update(message)
                case Append():
                    yield from self._append(message)
                case Commit():
                    yield self._flush(makes_item=True)
                case Clear():
                    yield self._clear()
        except Misunderstood as error:
            yield self._failed(str(error), message.event_id)

    def write(self, message: Written) -> Iterator[str]:
        """Yield a message as OpenAI's clients read it."""
        for one in self._messages(message):
            yield _text(one)

    def _failed(self, message: str, event: str | None) -> Reply:
        """Return the answer to a message that means nothing."""
        fault = _fault("invalid_value", message, event)
        return Reply(_text(Failed(event_id=self._event(), error=fault)))

    def _update(self, message: Update) -> Reply:
        has_audio = self._decoder is not None
        with understanding():
            warnings = self._configuration.update(message.session, has_audio=has_audio)
        return Reply(self._state(f"{message.type}d", warnings))

    def _append(self, message: Append) -> Iterator[Read]:
        try:
            data = base64.b64decode(message.audio, validate=True)
        except ValueError as error:
            got = str(error).lower()
            expected = "audio: expected base64, got another text"
            raise Misunderstood(f"{expected}: {got}") from None
        if self._decoder is None:
            chosen = self._configuration.chosen
            start, self._decoder = decoder(
                self._configuration.encoding,
                self._configuration.rate,
                silence_ms=chosen.silence_ms,
                phrases=chosen.phrases,
            )
            yield start
        self._waiting += len(data)
        yield from self._decoder.push(data)

    def _flush(self, *, makes_item: bool) -> own.Flush:
        if not self._waiting:
            raise Misunderstood("input_audio_buffer.commit: expected audio before it, got none")
        self._waiting = 0
        self._asked.append(makes_item)
        return own.Flush()

    def _clear(self) -> Read:
        if self._waiting:
            return self._flush(makes_item=False)
        return Reply(_text(Cleared(event_id=self._event())))

    def _messages(self, message: Written) -> Iterator[Event]:
        match message:
            case own.Chars():
                yield from self._characters(message)
            case own.Endpoint():
                if self._configuration.chosen.ends_by_itself:
                    yield SpeechStopped(
                        event_id=self._event(),
                        audio_end_ms=_ms(message.end),
                        item_id=self._item(),
                    )
                    yield from self._complete(message.position)
            case own.Flushed():
                if self._asked.pop(0):
                    yield from self._complete(message.position)
                else:
                    self._next(message.position)
                    yield Cleared(event_id=self._event())
            case own.Error():
                yield Failed(event_id=self._event(), error=_fault(message.code, message.message))

    def _characters(self, message: own.Chars) -> Iterator[Event]:
        self._transcript.add(message.text, message.times, message.confidences)
        begins = not self._deltas.begun
        if not (characters := self._deltas.take(message.characters())):
            return
        words, text = words_of(characters), "".join(one.text for one in characters)
        if self._configuration.chosen.ends_by_itself and begins:
            start = _ms(words[0].start)
            yield SpeechStarted(event_id=self._event(), audio_start_ms=start, item_id=self._item())
        logprobs = self._logprobs(words, text)
        yield Delta(event_id=self._event(), item_id=self._item(), delta=text, logprobs=logprobs)

    def _logprobs(self, words: Sequence[Word], text: str) -> list[LogProb] | None:
        return LogProb.of(words, text) if self._configuration.chosen.has_logprobs else None

    def _complete(self, position: float) -> Iterator[Event]:
        """Yield the messages that end an item at `position` seconds."""
        item, before = self._item(), self._before
        said = self._transcript.final(position)
        words = words_of(said.characters())
        text = text_of(words)
        content = [{"type": "input_audio", "transcript": text}]
        yield Committed(event_id=self._event(), item_id=item, previous_item_id=before)
        yield ItemAdded(
            event_id=self._event(), previous_item_id=before, item=Item(id=item, content=content)
        )
        usage = Duration(seconds=round(position - self._begin, 3))
        yield Completed(
            event_id=self._event(),
            item_id=item,
            transcript=text,
            logprobs=self._logprobs(words, text),
            usage=usage,
            omitted=said.omitted,
        )
        self._before = item
        self._next(position)

    def _next(self, position: float) -> None:
        """Begin the next item at `position` seconds."""
        self._items += 1
        self._transcript = Transcript(self._max_characters)
        self._deltas, self._begin = Deltas(), position

    def _item(self) -> str:
        return f"item_{self._session}_{self._items}"

    def _event(self) -> str:
        self._events += 1
        return f"event_{self._session}_{self._events}"

    def _state(self, kind: Any, warnings: list[str] | None = None) -> str:
        content = self._configuration.content()
        event = SessionEvent(
            type=kind, event_id=self._event(), session=content, warnings=warnings or None
        )
        return _text(event)


def _name(data: str | bytes) -> str | None:
    """Return the `event_id` of a message that is wrong, if it has one."""
    with suppress(ValidationError):
        return Said.model_validate_json(data).event_id
    return None


def _fault(code: str, message: str, event: str | None = None) -> Fault:
    kind = "server_error" if code in OURS else "invalid_request_error"
    name = None if event is None else event[:QUOTED]
    return Fault(type=kind, code=code, message=message, event_id=name)


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _text(event: Event) -> str:
    return event.model_dump_json()
