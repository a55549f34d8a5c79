"""The messages of `/v1/stream`, as types.

A client sends one `start`, binary frames of audio, and one `end`; the server answers `ready`, then
`chars` as characters are decided and `endpoint` where an utterance ends, then `final`. With
`suspend` for `end` it answers `suspended`, and `resume` for `start` goes on there. An `error` may
come at any time and is the last message. `make reference` writes the tables of docs/protocol.md.
"""

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from cortado.model import captions
from cortado.model.emission import Character
from cortado.model.streaming.options import (
    MAX_ALTERNATIVES,
    MAX_PHRASE,
    MAX_PHRASES,
    StreamOptions,
)

MIN_SAMPLE_RATE = 8_000  # Hz
MAX_SAMPLE_RATE = 192_000  # Hz
DEFAULT_SAMPLE_RATE = 16_000  # Hz, the model's own
MAX_COUNT = 2**53  # what any client's numbers hold exactly
MIN_SILENCE_MS, MAX_SILENCE_MS = 300, 5000  # less than a letter may take to be decided; no pause

Encoding = Literal["pcm_s16le", "pcm_f32le", "pcm_s24le", "pcm_s32le", "mulaw", "alaw"]
SAMPLE_BYTES: dict[str, int] = {
    "pcm_s16le": 2,
    "pcm_f32le": 4,
    "pcm_s24le": 3,
    "pcm_s32le": 4,
    "mulaw": 1,
    "alaw": 1,
}
# Compressed audio, whose data says its rate: Opus packets, one a frame, and what has a header.
Compressed = Literal["opus", "ogg", "webm", "flac", "wav", "mp4", "mp3", "aac"]
AnyEncoding = Literal[Encoding, Compressed]


class ErrorCode(StrEnum):
    """Why the server ended a conversation."""

    INVALID_MESSAGE = "invalid_message"
    UNEXPECTED_MESSAGE = "unexpected_message"
    UNSUPPORTED_ENCODING = "unsupported_encoding"
    UNSUPPORTED_SAMPLE_RATE = "unsupported_sample_rate"
    INVALID_AUDIO = "invalid_audio"
    INVALID_STATE = "invalid_state"
    UNKNOWN_STREAM = "unknown_stream"
    MESSAGE_TOO_BIG = "message_too_big"
    START_TIMEOUT = "start_timeout"
    IDLE_TIMEOUT = "idle_timeout"
    STREAM_TOO_LONG = "stream_too_long"
    SLOW_CLIENT = "slow_client"
    TAKEN_OVER = "taken_over"
    TOO_MANY_STREAMS = "too_many_streams"
    SHUTTING_DOWN = "shutting_down"
    INTERNAL_ERROR = "internal_error"


class ProtocolError(Exception):
    """An error that ends a conversation: its code, and its message to the client."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Said(BaseModel):
    """A message of a client: no field beside its own, and each of its own type."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True
    )


Phrase = Annotated[str, Field(max_length=MAX_PHRASE)]
Phrases = Annotated[tuple[Phrase, ...], Field(max_length=MAX_PHRASES, strict=False)]


class Start(Said):
    """The client's first message: how its audio is to be read."""

    type: Literal["start"] = "start"
    sample_rate: Annotated[int, Field(ge=MIN_SAMPLE_RATE, le=MAX_SAMPLE_RATE)] = DEFAULT_SAMPLE_RATE
    """Samples per second of raw audio. The server resamples rates other than 16000."""
    encoding: AnyEncoding = "pcm_s16le"
    """How the audio is encoded: see the table of audio."""
    endpoints: bool = True
    """Whether the server splits the stream into utterances and reports where each one ends."""
    silence_ms: Annotated[int, Field(ge=MIN_SILENCE_MS, le=MAX_SILENCE_MS)] | None = None
    """Milliseconds of silence after which an utterance ends, from 300 to 5000; if not given, the
    rules of the server hold: about 800."""
    keep: bool = False
    """Whether the server keeps the stream for a while if its connection is lost."""
    phrases: Phrases = ()
    """Up to 100 phrases that are likely to be said, such as names; each with a letter and at most
    100 characters, and 511 letters and spaces in all, beginnings that they share counted once."""
    alternatives: Annotated[int, Field(ge=0, le=MAX_ALTERNATIVES)] = 0
    """How many alternatives of a word and texts of an utterance are sent at most, up to 10."""

    @property
    def options(self) -> StreamOptions:
        """What the stream asks for, as the recogniser has it."""
        silence = None if self.silence_ms is None else self.silence_ms / 1000
        return StreamOptions(self.phrases, self.alternatives, self.endpoints, silence)


class Resume(Said):
    """The client's first message: its audio goes on where another connection stopped."""

    type: Literal["resume"] = "resume"
    state: str | None = None
    """The `state` of `suspended`. Either this or `token` is required."""
    token: str | None = None
    """The `token` of the `ready` of the lost connection."""
    characters: Annotated[int, Field(ge=0, le=MAX_COUNT)] = 0
    """With `token`: how many characters of the whole stream the client has received."""
    utterances: Annotated[int, Field(ge=0, le=MAX_COUNT)] = 0
    """With `token`: how many `endpoint` messages of the whole stream it has received."""
    encoding: AnyEncoding = "pcm_s16le"
    """With `state`: the encoding of the audio that follows, at 16000 samples a second. With `token`
    the encoding does not change."""
    keep: bool = False
    """With `state`: as in `start`. With `token` the stream is kept again if this connection is
    lost."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.state is None) == (self.token is None):
            raise ValueError("expected a state or a token")
        return self


class Suspend(Said):
    """The client's last message: the stream will go on over another connection."""

    type: Literal["suspend"] = "suspend"


class End(Said):
    """The client's last message: no more audio follows."""

    type: Literal["end"] = "end"


class Flush(Said):
    """Asks for all text of the audio so far, as `end` does; the stream continues."""

    type: Literal["flush"] = "flush"


class KeepAlive(Said):
    """The client has no audio now, and stays."""

    type: Literal["keep_alive"] = "keep_alive"


class Answer(BaseModel):
    """A message of the server."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class Ready(Answer):
    """The server's answer to `start`: audio is being listened to."""

    type: Literal["ready"] = "ready"
    session: str
    """The name of the stream in the server's log."""
    model: str
    """The name of the model."""
    sample_rate: int
    """The sample rate at which the server reads the audio, as in `start`."""
    encoding: AnyEncoding
    """The encoding in which the server reads the audio, as in `start`."""
    step_ms: int
    """Milliseconds of audio in one step of the model; also the precision of times."""
    lookahead_ms: int
    """Milliseconds of audio after a moment that the model needs before it decides about that
    moment."""
    received: int = 0
    """Samples of the stream, at `sample_rate`, that the server has: 0 for a new stream. A client
    that resumes sends from this sample on."""
    token: str | None = None
    """With `keep`: what `resume` needs if the connection is lost, the same for all connections of
    the stream. Absent if the stream is not kept."""


class TimedText(Answer):
    """Text with the time of each of its characters in seconds, and with their confidences."""

    type: str
    text: str
    times: list[float]
    confidences: list[float]

    @model_validator(mode="after")
    def _one_of_each_per_character(self) -> Self:
        for name, found in (("times", self.times), ("confidences", self.confidences)):
            if len(self.text) != len(found):
                raise ValueError(f"expected {len(self.text)} {name}, got {len(found)}")
        return self

    def characters(self) -> list[Character]:
        """Return the characters; when each was committed is not known here."""
        parts = zip(self.text, self.times, self.confidences, strict=True)
        return [Character(text, time, confidence=sure) for text, time, sure in parts]


class Alternative(BaseModel):
    """What a word may have been instead, and the probability of that."""

    model_config = ConfigDict(from_attributes=True)

    text: str
    confidence: float


class Word(BaseModel):
    """A word of an utterance that has ended, from `start` to `end` in seconds of the stream."""

    model_config = ConfigDict(from_attributes=True)

    text: str
    start: float
    end: float
    confidence: float
    alternatives: list[Alternative] | None = None

    @classmethod
    def of(cls, word: captions.Word) -> Self:
        """Return a word of the recogniser."""
        found = cls.model_validate(word)
        found.alternatives = found.alternatives or None
        return found

    @property
    def others(self) -> tuple[captions.Alternative, ...]:
        """The alternatives, as the recogniser has them."""
        given = self.alternatives or ()
        return tuple(captions.Alternative(one.text, one.confidence) for one in given)


class Text(BaseModel):
    """One of the texts that an utterance may have, and its log-probability in nats."""

    text: str
    log_probability: float


class Chars(TimedText):
    """Characters that are decided; they are never revised."""

    type: Literal["chars"] = "chars"
    text: str
    """The next characters of the transcript. Append them as they are; they are never revised."""
    times: list[float]
    """For each character its time, in seconds of the stream: the end of the frame where the
    attention stopped, at most the end of the audio. The search commits a character when its
    hypotheses agree on it. That is at most 560 ms after its time; if another hypothesis than the
    best wrote it, at most 720 ms; with `--hold`, up to 2 s."""
    confidences: list[float]
    """For each character the probability, from 0 to 1, that its word is right, by what was known
    when it was committed."""
    position: float
    """Seconds of the stream's audio on which the transcript so far rests."""


class Acknowledged(Answer):
    """The server has stored the stream as it was after so many samples: they may be dropped."""

    type: Literal["acknowledged"] = "acknowledged"
    received: int
    """Samples of the stream, at `sample_rate`, after which the server has stored it. The client may
    drop the audio before: it is not needed again, even if the server is killed."""


class Endpoint(Answer):
    """The end of an utterance: it has the characters since the previous endpoint."""

    type: Literal["endpoint"] = "endpoint"
    utterance: int
    """The number of the utterance that has ended; the first of a stream is 0."""
    start: float
    """The time of its first character, in seconds of the stream."""
    end: float
    """The time of its last character, in seconds of the stream."""
    position: float
    """Seconds of the stream's audio that had been processed when the end was found."""
    words: list[Word] = []
    """The utterance's words: objects with `text`, `start` and `end` in seconds, and `confidence`,
    the least of its characters'. With `alternatives`, words in doubt have `alternatives`: others by
    probability, with `text` and `confidence`."""
    texts: list[Text] | None = None
    """With `alternatives`, the texts that the utterance may have: objects with `text` and
    `log_probability`. The first is what was sent, the others come by probability."""


class Flushed(Answer):
    """The answer to `flush`: all text of the audio before it was sent."""

    type: Literal["flushed"] = "flushed"
    position: float
    """Seconds of the stream's audio that had been received."""
    words: list[Word] = []
    """The words since the last utterance ended, as in `endpoint`."""
    texts: list[Text] | None = None
    """Their texts, as in `endpoint`."""


class Final(TimedText):
    """The transcript of an ended stream, of a long one its end; the server closes after it."""

    type: Literal["final"] = "final"
    text: str
    """The transcript: the text of all `chars`, without the first `omitted` characters."""
    times: list[float]
    """The times of its characters."""
    confidences: list[float]
    """Their confidences."""
    duration: float
    """Seconds of audio that were received."""
    omitted: int = 0
    """How many characters at the beginning of the stream `text` and `times` leave out: those beyond
    the last `transcript_characters`, and those that were sent before the stream was suspended.
    Otherwise 0."""
    words: list[Word] = []
    """The words since the last utterance ended, as in `endpoint`. So each word of a stream comes
    once, with the end of its utterance, unless the stream was suspended within it."""
    texts: list[Text] | None = None
    """Their texts, as in `endpoint`."""


class Suspended(Answer):
    """The stream as `resume` takes it; the server closes after it."""

    type: Literal["suspended"] = "suspended"
    state: str
    """The snapshot of the stream, for `resume`: with the shipped model some 340,000 characters of
    base64 (400,000 on CPUs without bf16), 4,000 more with a voice activity detector, however long
    the stream has lasted."""
    received: int
    """Samples of the stream that were received."""
    characters: int
    """Characters of the stream that were sent."""


class Error(Answer):
    """Why the server ends the conversation; it closes after it."""

    type: Literal["error"] = "error"
    code: ErrorCode
    """One of the codes below."""
    message: str
    """What was expected and what was received, for people."""
    retry_after: float | None = None
    """Seconds after which the client may come again; absent where coming again does not help."""


ClientMessage = Start | Resume | Flush | KeepAlive | Suspend | End
ServerMessage = Ready | Chars | Acknowledged | Endpoint | Flushed | Final | Suspended | Error
