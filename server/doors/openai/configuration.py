"""The configuration of a Realtime transcription session."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cortado.server.doors.openai.prompt import expected
from cortado.server.protocol.messages import MAX_SILENCE_MS, MIN_SILENCE_MS
from cortado.server.protocol.parsing import MAX_WARNINGS, QUOTED, UNWEIGHED, explained

RATES = {"audio/pcm": 24_000, "audio/pcmu": 8_000, "audio/pcma": 8_000}  # Hz
ENCODINGS = {"audio/pcm": "pcm_s16le", "audio/pcmu": "mulaw", "audio/pcma": "alaw"}
LOGPROBS = "item.input_audio_transcription.logprobs"
OLD_FIELDS = ("input_audio_format", "input_audio_transcription", "turn_detection")
PHRASES = ("prompt", "keywords")  # of which a session repeats what it took
OLD_FORMATS = {"pcm16": "audio/pcm", "g711_ulaw": "audio/pcmu", "g711_alaw": "audio/pcma"}


class Part(BaseModel):
    """A part of a session; what has no effect in it is left alone."""

    model_config = ConfigDict(extra="allow", strict=True)


class Format(Part):
    type: Literal["audio/pcm", "audio/pcmu", "audio/pcma"]
    rate: int | None = None


class TurnDetection(Part):
    type: Literal["server_vad", "semantic_vad"]
    silence_duration_ms: Annotated[int, Field(ge=0)] | None = None


class Transcribed(Part):
    prompt: str | None = None
    keywords: Annotated[list[str], Field(strict=False)] | None = None


class Input(Part):
    format: Format | None = None
    transcription: Transcribed | None = None
    turn_detection: TurnDetection | None = None


class Audio(Part):
    input: Input | None = None


class Session(Part):
    type: Literal["transcription"] = "transcription"
    audio: Audio | None = None
    include: list[Literal["item.input_audio_transcription.logprobs"]] | None = None


@dataclass(frozen=True)
class Choice:
    """What a client has chosen."""

    format: str = "audio/pcm"
    ends_by_itself: bool = True  # the server finds the ends of utterances
    silence_ms: int | None = None  # that ends an utterance; None for the recogniser's own rules
    phrases: tuple[str, ...] = ()  # that are expected
    has_logprobs: bool = False


FIXED = {  # once there is audio, and where it is in a session
    "format": "format",
    "silence_ms": "turn_detection.silence_duration_ms",
    "phrases": "transcription.prompt",
}


class Configuration:
    """What a client may set, and how the session stands."""

    def __init__(self, session: str, model: str, *, weighs_phrases: bool = True) -> None:
        """Begin a session of that id; without `weighs_phrases` a prompt has no effect."""
        self._session, self._model, self._weighs = session, model, weighs_phrases
        self.chosen = Choice()

    @property
    def rate(self) -> int:
        """Samples a second."""
        return RATES[self.chosen.format]

    @property
    def encoding(self) -> str:
        """Our name of the encoding."""
        return ENCODINGS[self.chosen.format]

    def update(self, fields: Any, *, has_audio: bool = False) -> list[str]:
        """Set what `session.update` says, all of it or nothing; return what of it has no effect.

        Raises: ValueError if it cannot be set, or not any more because there was audio.
        """
        fields = _as_new(fields)
        try:
            asked = Session.model_validate(fields)
        except ValidationError as error:
            raise ValueError(explained(error, "expected a session", "session")) from None
        chosen, warnings = self.chosen, list[str]()
        if asked.audio is not None and asked.audio.input is not None:
            chosen, why = self._listening(asked.audio.input)
            if why:
                warnings = [f"session.audio.input.{FIXED['phrases']}: {why}"]
        if "include" in asked.model_fields_set:
            chosen = replace(chosen, has_logprobs=bool(asked.include))
        for name, where in FIXED.items():
            if has_audio and getattr(chosen, name) != getattr(self.chosen, name):
                raise ValueError(
                    f"session.audio.input.{where}: expected no change after audio, got one"
                )
        self.chosen = chosen
        found = chain(warnings, _without_effect(fields, self.content(), "session"))
        return list(islice(found, MAX_WARNINGS))

    def _listening(self, given: Input) -> tuple[Choice, str | None]:
        """Return the choice with how audio is heard, and what of its prompt has no effect."""
        chosen, why = self.chosen, None
        if given.format is not None:
            if given.format.rate not in (None, RATES[given.format.type]):
                expected_rate = f"{RATES[given.format.type]} for {given.format.type}"
                got = given.format.rate
                raise ValueError(
                    f"session.audio.input.format.rate: expected {expected_rate}, got {got}"
                )
            chosen = replace(chosen, format=given.format.type)
        if "turn_detection" in given.model_fields_set:
            chosen = replace(chosen, ends_by_itself=given.turn_detection is not None)
        turns = given.turn_detection
        if turns is not None and "silence_duration_ms" in turns.model_fields_set:
            chosen = replace(chosen, silence_ms=_silence(turns.silence_duration_ms))
        said = given.transcription
        if said is not None and {"prompt", "keywords"} & said.model_fields_set:
            found = expected(said.prompt or "", said.keywords or ())
            if said.prompt or said.keywords:
                why = found.without_effect if self._weighs else UNWEIGHED
            if self._weighs:
                chosen = replace(chosen, phrases=found.phrases)
        return chosen, why

    def content(self) -> dict[str, Any]:
        """Return the session as clients read it: what is in effect, and nothing else."""
        shape: dict[str, Any] = {"type": self.chosen.format}
        if self.chosen.format == "audio/pcm":
            shape["rate"] = self.rate
        turns: dict[str, Any] | None = None
        if self.chosen.ends_by_itself:
            turns = {"type": "server_vad"}
            if self.chosen.silence_ms is not None:
                turns["silence_duration_ms"] = self.chosen.silence_ms
        said = {
            "model": self._model,
            "language": None,
            "prompt": ", ".join(self.chosen.phrases) or None,
        }
        return {
            "type": "transcription",
            "object": "realtime.transcription_session",
            "id": self._session,
            "audio": {
                "input": {
                    "format": shape,
                    "transcription": said,
                    "noise_reduction": None,
                    "turn_detection": turns,
                }
            },
            "include": [LOGPROBS] if self.chosen.has_logprobs else None,
        }

    def carried(self) -> dict[str, Any]:
        """Return what `update` of another session takes to stand as this one does."""
        content = self.content()
        heard = content["audio"]["input"] | {"transcription": {"keywords": self.chosen.phrases}}
        del heard["noise_reduction"]
        return {"audio": {"input": heard}, "include": content["include"]}


def _silence(asked: int | None) -> int | None:
    """Return the silence that a stream takes, nearest to what is asked for."""
    return None if asked is None else min(max(asked, MIN_SILENCE_MS), MAX_SILENCE_MS)


def _as_new(fields: Any) -> Any:
    """Return a session of the earlier form (`input_audio_format`) in today's form."""
    if not isinstance(fields, dict) or "audio" in fields:
        return fields
    found: dict[str, Any] = {}
    if "input_audio_format" in fields:
        name = fields["input_audio_format"]
        found["format"] = {"type": OLD_FORMATS.get(name, name) if isinstance(name, str) else name}
    if "input_audio_transcription" in fields:
        found["transcription"] = fields["input_audio_transcription"]
    if "turn_detection" in fields:
        found["turn_detection"] = fields["turn_detection"]
    rest = {key: value for key, value in fields.items() if key not in OLD_FIELDS}
    return rest | {"audio": {"input": found}}


def _without_effect(asked: dict[str, Any], session: Any, where: str) -> Iterator[str]:
    """Yield a warning for each thing that is `asked` and is not so in the session.

    English is what is written, whatever the session says.
    """
    for name, value in asked.items():
        now = session.get(name) if isinstance(session, dict) else None
        place = f"{where}.{name[:QUOTED]}"
        if isinstance(value, dict):
            yield from _without_effect(value, now, place)
        elif name == "language" and str(value).startswith("en"):
            continue
        elif value and value != now and name not in PHRASES:
            yield f"{place}: {'it has no effect here' if now is None else f'it stays {now}'}"
