"""What Deepgram's clients are sent; a field that Cortado does not know is left out."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from cortado.model.captions import Word as OwnWord
from cortado.model.nbest import texts
from cortado.server.doors.words import SentWord, confidence_of, text_of

MOST_SECONDS, SECONDS = 3600.0, 30.0  # that a token lasts; if not said


class Control(BaseModel):
    """What a client says beside its audio."""

    type: Literal["KeepAlive", "Finalize", "CloseStream", "Configure"]


class Word(SentWord):
    """A word with its confidence."""

    confidence: float
    punctuated_word: str | None = None  # the same, for clients that ask for punctuation


class Sentence(BaseModel):
    """An utterance, since there is no punctuation."""

    text: str
    start: float
    end: float


class Paragraph(BaseModel):
    """Utterances with hardly a pause between them."""

    sentences: list[Sentence]
    num_words: int
    start: float
    end: float


class Paragraphs(BaseModel):
    """The text of a file in paragraphs, which empty lines separate in `transcript`."""

    transcript: str
    paragraphs: list[Paragraph]


class Alternative(BaseModel):
    """A text of a result; its confidence is the mean of its words'."""

    transcript: str
    confidence: float
    words: list[Word]
    paragraphs: Paragraphs | None = None  # of a file

    @classmethod
    def of(cls, words: Sequence[OwnWord], *, punctuated: bool) -> "Alternative":
        """Return words of ours."""
        found = [Word.of(word, confidence=word.confidence) for word in words]
        if punctuated:
            for word in found:
                word.punctuated_word = word.word
        return cls(transcript=text_of(words), confidence=confidence_of(words), words=found)


class Channel(BaseModel):
    """What was heard in a channel: what was written, then other texts by probability."""

    alternatives: list[Alternative]

    @classmethod
    def of(cls, words: Sequence[OwnWord], most: int, *, punctuated: bool) -> "Channel":
        """Return words of ours, as at most so many texts."""
        found = [Alternative.of(one.words, punctuated=punctuated) for one in texts(words, most)]
        return cls(alternatives=found)


class Warning(BaseModel):
    """A parameter without effect."""

    parameter: str
    type: str = "unsupported"
    message: str


class ModelInfo(BaseModel):
    """The model's name; version 5 of the SDK leaves a result half read without all fields."""

    name: str
    version: str = ""
    arch: str = ""


class ResultsMetadata(BaseModel):
    """Which stream and model a result is of; warnings come with the first."""

    model_config = ConfigDict(protected_namespaces=())

    request_id: str
    model_info: ModelInfo
    model_uuid: str = ""  # as version and arch of the model
    warnings: list[Warning] | None = None


class Results(BaseModel):
    """Text of a part of the stream, from `start` on, in seconds."""

    type: Literal["Results"] = "Results"
    channel_index: tuple[int, int]  # which one, of how many
    start: float
    duration: float
    is_final: bool
    speech_final: bool
    from_finalize: bool = False
    channel: Channel
    metadata: ResultsMetadata


class ConfigureFailure(BaseModel):
    """The answer to `Configure`: a stream's phrases are those that it began with."""

    type: Literal["ConfigureFailure"] = "ConfigureFailure"
    request_id: str
    code: str = "CONFIGURE_KEYTERMS_NOT_SUPPORTED"
    description: str = "expected keyterms and features in the address, which last for the stream"


class SpeechStarted(BaseModel):
    """The first letter of an utterance was written, which was spoken at `timestamp`."""

    type: Literal["SpeechStarted"] = "SpeechStarted"
    channel: tuple[int, int]
    timestamp: float


class UtteranceEnd(BaseModel):
    """An utterance has ended."""

    type: Literal["UtteranceEnd"] = "UtteranceEnd"
    channel: tuple[int, int]
    last_word_end: float


class Facts(BaseModel):
    """Facts of what was transcribed."""

    transaction_key: Literal["deprecated"] = "deprecated"  # as Deepgram itself sends it
    request_id: str
    sha256: str  # of all bytes of audio
    created: str
    duration: float
    channels: int
    models: list[str]
    warnings: list[Warning]


class Metadata(Facts):
    """The last message of a stream."""

    type: Literal["Metadata"] = "Metadata"


class Error(BaseModel):
    """Why the stream ends."""

    type: Literal["Error"] = "Error"
    variant: str
    description: str


class FileMetadata(Facts):
    """Facts of a file that was transcribed."""

    model_config = ConfigDict(protected_namespaces=())

    model_info: dict[str, ModelInfo]


class Utterance(BaseModel):
    """An utterance of a file."""

    id: str
    start: float
    end: float
    channel: int
    transcript: str
    confidence: float
    words: list[Word]


class FileResults(BaseModel):
    """The text of a file."""

    channels: list[Channel]
    utterances: list[Utterance] | None = None


class FileResponse(BaseModel):
    """The answer to a file."""

    metadata: FileMetadata
    results: FileResults


class Refusal(BaseModel):
    """The answer to a request that cannot be served."""

    err_code: str
    err_msg: str
    request_id: str


class GrantAsked(BaseModel):
    """How long a token is to be good."""

    ttl_seconds: Annotated[float, Field(ge=1, le=MOST_SECONDS)] = SECONDS


class Grant(BaseModel):
    """A token that lets a client in for some seconds."""

    access_token: str
    expires_in: float
