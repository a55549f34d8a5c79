"""What OpenAI's clients are sent; a field that Cortado does not know is left out."""

import math
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from cortado.model.captions import Word
from cortado.server.doors.words import SentWord

TOKEN = re.compile(r"\s*\S+")  # a word with the space before it
LEAST_SECONDS, MOST_SECONDS, SECONDS = 10, 7200, 600  # that a secret lasts; if not said
LEAST = 0.0005  # a probability that is rounded to 0 thousandths


class LogProb(BaseModel):
    """A word, or what there is of it, and the logarithm of the probability that it is right."""

    token: str
    logprob: float
    bytes: list[int]

    @classmethod
    def of(cls, words: Sequence[Word], text: str) -> "list[LogProb]":
        """Return the tokens of a text that has these words."""
        return [
            cls(
                token=token,
                logprob=round(math.log(max(word.confidence, LEAST)), 4),
                bytes=list(token.encode()),
            )
            for word, token in zip(words, TOKEN.findall(text), strict=True)
        ]


class Duration(BaseModel):
    """How much audio was heard."""

    type: Literal["duration"] = "duration"
    seconds: float


class Piece(BaseModel):
    """An utterance, in place of what OpenAI calls a segment."""

    id: int
    start: float
    end: float
    text: str


class Transcription(BaseModel):
    """The answer of format `json`."""

    text: str
    logprobs: list[LogProb] | None = None
    usage: Duration
    warnings: list[str] | None = None


class VerboseTranscription(BaseModel):
    """The answer of format `verbose_json`."""

    task: Literal["transcribe"] = "transcribe"
    language: str | None = None
    duration: float
    text: str
    words: list[SentWord] | None = None
    segments: list[Piece] | None = None
    usage: Duration
    warnings: list[str] | None = None


class TextDelta(BaseModel):
    """More text of a file, streamed."""

    type: Literal["transcript.text.delta"] = "transcript.text.delta"
    delta: str
    logprobs: list[LogProb] | None = None


class TextDone(BaseModel):
    """All text of a file, streamed."""

    type: Literal["transcript.text.done"] = "transcript.text.done"
    text: str
    logprobs: list[LogProb] | None = None
    warnings: list[str] | None = None


class Fault(BaseModel):
    """What is wrong."""

    type: str
    code: str
    message: str
    param: str | None = None
    event_id: str | None = None


class Refusal(BaseModel):
    """The answer to a request that cannot be served."""

    error: Fault


class Model(BaseModel):
    """The model of this server."""

    id: str
    object: Literal["model"] = "model"
    owned_by: Literal["cortado"] = "cortado"


class Models(BaseModel):
    """The models of this server: one."""

    object: Literal["list"] = "list"
    data: list[Model]


class ExpiresAfter(BaseModel):
    """When a secret ends."""

    anchor: Literal["created_at"] = "created_at"
    seconds: Annotated[int, Field(ge=LEAST_SECONDS, le=MOST_SECONDS)] = SECONDS


class ClientSecretAsked(BaseModel):
    """What a secret of a browser is to be good for."""

    expires_after: ExpiresAfter = ExpiresAfter()
    session: dict[str, Any] = {}


class ClientSecret(BaseModel):
    """A secret of a browser, and how a session begins that is opened with it."""

    value: str
    expires_at: int
    session: dict[str, Any]
    warnings: list[str] | None = None


class Said(BaseModel):
    """A message of a client; an error repeats its `event_id`."""

    event_id: str | None = None


class Update(Said):
    """The session is to be so."""

    type: Literal["session.update", "transcription_session.update"]
    session: dict[str, Any]


class Append(Said):
    """More audio, in base64."""

    type: Literal["input_audio_buffer.append"]
    audio: str


class Commit(Said):
    """The audio so far is an item."""

    type: Literal["input_audio_buffer.commit"]


class Clear(Said):
    """The audio since the last item is to be thrown away."""

    type: Literal["input_audio_buffer.clear"]


ClientEvent = Annotated[Update | Append | Commit | Clear, Field(discriminator="type")]


class Event(BaseModel):
    """A message of a Realtime session."""

    type: str
    event_id: str


class SessionEvent(Event):
    """How the session stands."""

    type: Literal["session.created", "session.updated", "transcription_session.updated"]
    session: dict[str, Any]
    warnings: list[str] | None = None  # what was asked for in vain


class SpeechStarted(Event):
    """The first letter of an utterance was written."""

    type: Literal["input_audio_buffer.speech_started"] = "input_audio_buffer.speech_started"
    audio_start_ms: int
    item_id: str


class SpeechStopped(Event):
    """An utterance has ended."""

    type: Literal["input_audio_buffer.speech_stopped"] = "input_audio_buffer.speech_stopped"
    audio_end_ms: int
    item_id: str


class Committed(Event):
    """The audio so far is an item."""

    type: Literal["input_audio_buffer.committed"] = "input_audio_buffer.committed"
    item_id: str
    previous_item_id: str | None


class Cleared(Event):
    """The audio since the last item is thrown away."""

    type: Literal["input_audio_buffer.cleared"] = "input_audio_buffer.cleared"


class Item(BaseModel):
    """A piece of speech, as the client knows it."""

    id: str
    object: Literal["realtime.item"] = "realtime.item"
    type: Literal["message"] = "message"
    role: Literal["user"] = "user"
    status: Literal["completed"] = "completed"
    content: list[dict[str, Any]]


class ItemAdded(Event):
    """There is a new item."""

    type: Literal["conversation.item.added"] = "conversation.item.added"
    previous_item_id: str | None
    item: Item


class Delta(Event):
    """More text of an item; it never changes."""

    type: Literal["conversation.item.input_audio_transcription.delta"] = (
        "conversation.item.input_audio_transcription.delta"
    )
    item_id: str
    content_index: int = 0
    delta: str
    logprobs: list[LogProb] | None = None


class Completed(Event):
    """All text of an item."""

    type: Literal["conversation.item.input_audio_transcription.completed"] = (
        "conversation.item.input_audio_transcription.completed"
    )
    item_id: str
    content_index: int = 0
    transcript: str
    logprobs: list[LogProb] | None = None
    usage: Duration
    omitted: int  # characters at the item's beginning that the transcript leaves out


class Failed(Event):
    """What is wrong: with the last message, or with the session, which is closed then."""

    type: Literal["error"] = "error"
    error: Fault
