"""vosk-server's websocket protocol, at `WS /`: each message of audio has one answer."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cortado.model.captions import Word as OwnWord
from cortado.model.nbest import texts
from cortado.model.streaming.options import MAX_ALTERNATIVES, MAX_PHRASE, MAX_PHRASES
from cortado.server.doors.audio import Decoder, decoder
from cortado.server.doors.words import SentWord, confidence_of, text_of
from cortado.server.protocol import messages as own
from cortado.server.protocol.dialect import Dialect, Read, Written
from cortado.server.protocol.events import Processed, WhenProcessed
from cortado.server.protocol.messages import ErrorCode, ProtocolError
from cortado.server.protocol.parsing import (
    MAX_WARNINGS,
    QUOTED,
    UNWEIGHED,
    check_fields,
    expected_field,
    quoted,
)
from cortado.server.protocol.words import Segment

DEFAULT_RATE = 8000  # Hz, vosk-server's own


class Config(BaseModel):
    """What a client may set; what has no effect is let through, and answered with a warning."""

    model_config = ConfigDict(allow_inf_nan=False, extra="allow")

    sample_rate: Annotated[float, Field(ge=own.MIN_SAMPLE_RATE, le=own.MAX_SAMPLE_RATE)] | None = (
        None
    )
    words: bool | None = None
    max_alternatives: int = 0
    phrase_list: own.Phrases | None = None
    model: Any = None


class Control(BaseModel):
    """What a client says beside its audio: one of the three."""

    config: Config | None = None
    eof: Any = None
    reset: Any = None


class Word(SentWord):
    """A word with its confidence."""

    conf: float


class Result(BaseModel):
    """An utterance, or the rest at the end."""

    result: list[Word] | None = None
    text: str
    warnings: list[str] | None = None


class Alternative(Result):
    """A text where a client asks for alternatives; as sure as its words are on average."""

    confidence: float


class Alternatives(BaseModel):
    """The same, where a client asks for alternatives: what was written, then others."""

    alternatives: list[Alternative]
    warnings: list[str] | None = None


class Partial(BaseModel):
    """The utterance so far."""

    partial: str
    warnings: list[str] | None = None


class Error(BaseModel):
    """Why the stream ends; vosk-server itself just closes."""

    error: str


class Vosk(Dialect):
    """The dialect of one connection."""

    def __init__(self, *, weighs_phrases: bool = True) -> None:
        """Begin; without `weighs_phrases` phrases have no effect."""
        self._weighs = weighs_phrases
        self._rate, self._has_words, self._alternatives = DEFAULT_RATE, True, 0
        self._phrases: tuple[str, ...] = ()
        self._warnings: list[str] = []
        self._decoder: Decoder | None = None  # once there is audio
        self._segment = Segment()
        self._ended: list[OwnWord] | None = None  # of utterances, since the last answer
        self._closed = False  # by the client

    def read(self, data: str | bytes) -> Iterator[Read]:
        """Yield what a message means."""
        if self._closed:
            return  # as of a microphone that stops a moment later: the text is still to come
        message = Control() if isinstance(data, bytes) else _control(data)
        if message.config is not None:
            self._configure(message.config)
            return
        if self._decoder is None:
            others = self._alternatives if self._alternatives > 1 else 0
            start, self._decoder = decoder(
                "pcm_s16le", self._rate, phrases=self._phrases, alternatives=others
            )
            yield start
        if isinstance(data, bytes):
            yield from self._decoder.push(data)
            yield WhenProcessed()
        else:
            self._closed = bool(message.eof)
            yield own.End() if self._closed else own.Flush()

    def write(self, message: Written) -> Iterator[str]:
        """Yield a message as Vosk's clients read it."""
        match message:
            case own.Chars():
                self._segment.add(message)
            case own.Endpoint() | own.Flushed() | own.Final():
                self._ended = (self._ended or []) + self._segment.take(message.words)
            case own.Error():
                yield Error(error=message.message).model_dump_json()
        if isinstance(message, Processed | own.Flushed | own.Final):
            yield self._answer()

    def _configure(self, config: Config) -> None:
        given = config.model_fields_set
        rate = int(config.sample_rate or self._rate)
        others = config.max_alternatives if "max_alternatives" in given else self._alternatives
        if others > MAX_ALTERNATIVES:
            self._warn(f"max_alternatives: there are at most {MAX_ALTERNATIVES}")
            others = MAX_ALTERNATIVES
        phrases = (config.phrase_list if self._weighs else None) or self._phrases
        if config.phrase_list and not self._weighs:
            self._warn(f"phrase_list: {UNWEIGHED}")
        if self._decoder is None:
            self._rate, self._alternatives, self._phrases = rate, others, phrases
        else:
            self._stay("sample_rate", self._rate, rate)
            self._stay("max_alternatives", self._alternatives, others)
            self._stay("phrase_list", list(self._phrases), list(phrases))
        self._has_words = self._has_words if config.words is None else config.words
        if "model" in given:
            self._warn("model: the model of this server writes the text")
        for name, value in (config.model_extra or {}).items():
            if value:  # or nothing is asked for
                self._warn(f"{name[:QUOTED]}: it has no effect here")

    def _stay(self, name: str, before: object, after: object) -> None:
        """Answer a change that comes too late with a warning."""
        if after != before:
            self._warn(f"{name}: it stays {before} once there is audio")

    def _warn(self, warning: str) -> None:
        if len(self._warnings) < MAX_WARNINGS and warning not in self._warnings:
            self._warnings.append(warning)

    def _answer(self) -> str:
        """Return the answer: what has ended since the last, or else the utterance so far."""
        warnings, self._warnings = self._warnings or None, []
        words, self._ended = self._ended, None
        if words is None:
            return _text(Partial(partial=text_of(self._segment.words), warnings=warnings))
        if self._alternatives < 1:
            result = Result(text=text_of(words), result=self._result(words), warnings=warnings)
            return _text(result)
        found = [
            Alternative(
                text=str(one),
                result=self._result(one.words),
                confidence=confidence_of(one.words),
            )
            for one in texts(words, self._alternatives)
        ]
        return _text(Alternatives(alternatives=found, warnings=warnings))

    def _result(self, words: Sequence[OwnWord]) -> list[Word] | None:
        if not self._has_words or not words:
            return None
        return [Word.of(one, conf=one.confidence) for one in words]


def _text(message: BaseModel) -> str:
    return message.model_dump_json(exclude_none=True)


def _control(data: str) -> Control:
    """Return what the JSON `data` spells.

    Raises: ProtocolError if it spells nothing that is known.
    """
    check_fields(data)
    expected = "expected config, eof, reset or audio"
    try:
        found = Control.model_validate_json(data)
        if found.config is not None or found.eof or found.reset:
            return found
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if "sample_rate" in first["loc"]:
            rates = f"{own.MIN_SAMPLE_RATE} to {own.MAX_SAMPLE_RATE} Hz"
            expected = f"expected a sample_rate from {rates}"
        elif "phrase_list" in first["loc"]:
            most = f"{MAX_PHRASES} texts of at most {MAX_PHRASE} characters"
            expected = f"expected a phrase_list of at most {most}"
        elif first["loc"][1:]:
            expected = expected_field(".".join(map(str, first["loc"])), first["msg"])
    raise ProtocolError(ErrorCode.INVALID_MESSAGE, f"{expected}, got {quoted(data)}")
