"""The messages of `/v1/stream`: bytes or text in, typed messages out, without any socket.

A client sends one `start`, binary frames of audio, and one `end`; the server answers `ready`, then
`chars` as characters are decided and `endpoint` where an utterance ends, then `final`. With
`suspend` for `end` it answers `suspended`, and `resume` for `start` goes on there. An `error` may
come at any time and is the last message. docs/protocol.md describes every field.
"""

from enum import StrEnum
from typing import Annotated, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

MIN_SAMPLE_RATE = 8_000  # Hz
MAX_SAMPLE_RATE = 192_000  # Hz
DEFAULT_SAMPLE_RATE = 16_000  # Hz, the model's own
QUOTED = 60  # characters of a client's input that an error message repeats

Encoding = Literal["pcm_s16le", "pcm_f32le"]
SAMPLE_BYTES: dict[Encoding, int] = {"pcm_s16le": 2, "pcm_f32le": 4}


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


# RFC 6455, section 7.4.1, and the IANA registry that continues it.
CLOSE_CODES: dict[ErrorCode, int] = {
    ErrorCode.INVALID_MESSAGE: 1007,
    ErrorCode.UNEXPECTED_MESSAGE: 1008,
    ErrorCode.UNSUPPORTED_ENCODING: 1003,
    ErrorCode.UNSUPPORTED_SAMPLE_RATE: 1003,
    ErrorCode.INVALID_AUDIO: 1007,
    ErrorCode.INVALID_STATE: 1007,
    ErrorCode.UNKNOWN_STREAM: 1008,
    ErrorCode.MESSAGE_TOO_BIG: 1009,
    ErrorCode.START_TIMEOUT: 1008,
    ErrorCode.IDLE_TIMEOUT: 1008,
    ErrorCode.STREAM_TOO_LONG: 1008,
    ErrorCode.SLOW_CLIENT: 1008,
    ErrorCode.TAKEN_OVER: 1008,
    ErrorCode.TOO_MANY_STREAMS: 1013,
    ErrorCode.SHUTTING_DOWN: 1012,
    ErrorCode.INTERNAL_ERROR: 1011,
}


class ProtocolError(Exception):
    """A conversation that cannot go on, with the code and the words that the client is told."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Start(BaseModel):
    """The client's first message: how its audio is to be read."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    type: Literal["start"] = "start"
    sample_rate: Annotated[int, Field(ge=MIN_SAMPLE_RATE, le=MAX_SAMPLE_RATE)] = DEFAULT_SAMPLE_RATE
    encoding: Encoding = "pcm_s16le"
    endpoints: bool = True
    keep: bool = False


class Resume(BaseModel):
    """The client's first message: its audio goes on where another connection stopped."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    type: Literal["resume"] = "resume"
    state: str | None = None
    token: str | None = None
    characters: Annotated[int, Field(ge=0)] = 0
    utterances: Annotated[int, Field(ge=0)] = 0
    encoding: Encoding = "pcm_s16le"
    keep: bool = False

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.state is None) == (self.token is None):
            raise ValueError("expected a state or a token")
        return self


class Suspend(BaseModel):
    """The client's last message: the stream will go on over another connection."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    type: Literal["suspend"] = "suspend"


class End(BaseModel):
    """The client's last message: no more audio follows."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    type: Literal["end"] = "end"


class Audio(NamedTuple):
    """A binary frame, decoded."""

    samples: NDArray[np.float32]  # (N,) in [-1, 1], at the rate of `start`


class Ready(BaseModel):
    """The server's answer to `start`: audio is being listened to."""

    type: Literal["ready"] = "ready"
    session: str
    model: str
    sample_rate: int
    encoding: Encoding
    step_ms: int
    lookahead_ms: int
    received: int = 0
    token: str | None = None


class Spoken(BaseModel):
    """Text with the time in seconds at which each of its characters was heard."""

    type: str
    text: str
    times: list[float]

    @model_validator(mode="after")
    def _one_time_per_character(self) -> Self:
        if len(self.text) != len(self.times):
            raise ValueError(f"expected {len(self.text)} times, got {len(self.times)}")
        return self


class Chars(Spoken):
    """Characters that are decided; they are never revised."""

    type: Literal["chars"] = "chars"
    position: float


class Endpoint(BaseModel):
    """The end of an utterance: the characters since the endpoint before it belong together."""

    type: Literal["endpoint"] = "endpoint"
    utterance: int
    start: float
    end: float
    position: float


class Final(Spoken):
    """The transcript of an ended stream, of a long one its end; the server closes after it."""

    type: Literal["final"] = "final"
    duration: float
    omitted: int = 0


class Suspended(BaseModel):
    """The stream as `resume` takes it; the server closes after it."""

    type: Literal["suspended"] = "suspended"
    state: str
    received: int
    characters: int


class Error(BaseModel):
    """Why the server ends the conversation; it closes after it."""

    type: Literal["error"] = "error"
    code: ErrorCode
    message: str


ClientMessage = Start | Resume | Suspend | End
ServerMessage = Ready | Chars | Endpoint | Final | Suspended | Error

_CLIENT: TypeAdapter[ClientMessage] = TypeAdapter(
    Annotated[ClientMessage, Field(discriminator="type")]
)
_SERVER: TypeAdapter[ServerMessage] = TypeAdapter(
    Annotated[ServerMessage, Field(discriminator="type")]
)
UNKNOWN = "union_tag_invalid"  # pydantic's word for a type that is not among ours


def parse_client(text: str) -> ClientMessage:
    """Return the client's message that the JSON `text` spells.

    Raises:
        ProtocolError: it spells none.
    """
    try:
        return _CLIENT.validate_json(text)
    except ValidationError as error:
        raise _explained(error) from None


def parse_server(text: str) -> ServerMessage | None:
    """Return the server's message that the JSON `text` spells; fields yet unknown are ignored.

    None is for a message of a type yet unknown, which clients ignore.

    Raises:
        ValueError: it spells none.
    """
    try:
        return _SERVER.validate_json(text)
    except ValidationError as error:
        if [each["type"] for each in error.errors(include_url=False)] == [UNKNOWN]:
            return None
        raise


def _explained(error: ValidationError) -> ProtocolError:
    """Return what a client is told of the first thing that is wrong with its message."""
    first = error.errors(include_url=False)[0]
    got = repr(first["input"])
    got = got if len(got) <= QUOTED else got[:QUOTED] + "…"
    where = first["loc"][-1] if first["loc"] else ""
    if first["type"] == "extra_forbidden":
        message = f"expected no field but those of {first['loc'][0]!r}, got {str(where)[:QUOTED]!r}"
        return ProtocolError(ErrorCode.INVALID_MESSAGE, message)
    if where == "sample_rate":
        expected = f"a sample_rate from {MIN_SAMPLE_RATE} to {MAX_SAMPLE_RATE} Hz, a whole number"
        return ProtocolError(ErrorCode.UNSUPPORTED_SAMPLE_RATE, f"expected {expected}, got {got}")
    if where == "encoding":
        expected = "encoding " + " or ".join(SAMPLE_BYTES)
        return ProtocolError(ErrorCode.UNSUPPORTED_ENCODING, f"expected {expected}, got {got}")
    if first["type"] == "value_error":  # a check of ours
        return ProtocolError(
            ErrorCode.INVALID_MESSAGE, f"{first['ctx']['error']}, got both or none"
        )
    kinds = '"start", "resume", "suspend" or "end"'
    message = f"expected a JSON object of type {kinds}, got {got}"
    return ProtocolError(ErrorCode.INVALID_MESSAGE, message)


class PcmDecoder:
    """Frames of PCM bytes to samples; the bytes of a sample may lie in two frames."""

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding
        self._rest = b""

    def decode(self, data: bytes) -> NDArray[np.float32]:
        """Return the (N,) samples in [-1, 1] that `data` completes.

        Raises:
            ProtocolError: a sample is not a number or infinite.
        """
        data = self._rest + data
        whole = len(data) - len(data) % SAMPLE_BYTES[self._encoding]
        self._rest = data[whole:]
        if self._encoding == "pcm_s16le":
            return np.frombuffer(data[:whole], "<i2").astype(np.float32) / np.float32(32768)
        samples = np.frombuffer(data[:whole], "<f4").astype(np.float32)
        if not np.isfinite(samples).all():
            raise ProtocolError(
                ErrorCode.INVALID_AUDIO, "expected finite samples, got NaN or infinity"
            )
        return samples.clip(-1, 1)


class Conversation:
    """The order of one client's messages.

    `start` or `resume`, then audio, then `end` or `suspend`, then nothing.
    """

    def __init__(self, max_message_bytes: int) -> None:
        self.start: Start | None = None
        self.ended = False
        self.samples = 0  # received, at the rate of `start`
        self._max_message_bytes = max_message_bytes
        self._decoder = PcmDecoder("pcm_s16le")

    @property
    def duration(self) -> float:
        """Seconds of audio received."""
        return self.samples / self.start.sample_rate if self.start else 0.0

    def receive(self, data: str | bytes) -> Start | Resume | Audio | Suspend | End:
        """Return what a text or binary frame means at this point of the conversation.

        Raises:
            ProtocolError: it means nothing here.
        """
        size = len(data if isinstance(data, bytes) else data.encode(errors="surrogatepass"))
        if size > self._max_message_bytes:
            expected = f"expected messages of at most {self._max_message_bytes} bytes"
            raise ProtocolError(ErrorCode.MESSAGE_TOO_BIG, f"{expected}, got {size}")
        message = data if isinstance(data, bytes) else parse_client(data)
        if self.ended:
            raise _unexpected("nothing after end", message)
        if self.start is None:
            return self._begin(message)
        if isinstance(message, bytes):
            samples = self._decoder.decode(message)
            self.samples += len(samples)
            return Audio(samples)
        if isinstance(message, Start | Resume):
            raise _unexpected("audio or end", message)
        if isinstance(message, Suspend) and self.start.sample_rate != DEFAULT_SAMPLE_RATE:
            expected = f"expected a stream at {DEFAULT_SAMPLE_RATE} Hz to suspend"
            got = f"one at {self.start.sample_rate} Hz, whose resampler stays with the server"
            raise ProtocolError(ErrorCode.UNSUPPORTED_SAMPLE_RATE, f"{expected}, got {got}")
        self.ended = True
        return message

    def _begin(self, message: ClientMessage | bytes) -> Start | Resume:
        if isinstance(message, Start):
            self.go_on(message, 0)
        elif not isinstance(message, Resume):
            raise _unexpected("start or resume", message)
        return message

    def go_on(self, start: Start, samples: int) -> None:
        """Expect audio as `start` says, after `samples` of it that were received before."""
        self.start, self.samples = start, samples
        self._decoder = PcmDecoder(start.encoding)


def _unexpected(expected: str, message: ClientMessage | bytes) -> ProtocolError:
    got = "audio" if isinstance(message, bytes) else message.type
    return ProtocolError(ErrorCode.UNEXPECTED_MESSAGE, f"expected {expected}, got {got}")
