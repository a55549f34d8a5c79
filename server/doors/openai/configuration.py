"""The configuration of a Realtime transcription session."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from cortado.server.protocol.messages import QUOTED, expected_field

RATES = {"audio/pcm": 24_000, "audio/pcmu": 8_000, "audio/pcma": 8_000}  # Hz
ENCODINGS = {"audio/pcm": "pcm_s16le", "audio/pcmu": "mulaw", "audio/pcma": "alaw"}
LOGPROBS = "item.input_audio_transcription.logprobs"
OLD_FORMATS = {"pcm16": "audio/pcm", "g711_ulaw": "audio/pcmu", "g711_alaw": "audio/pcma"}


class Part(BaseModel):
    """A part of a session; what has no effect in it is left alone."""

    model_config = ConfigDict(extra="allow", strict=True)


class Format(Part):
    type: Literal["audio/pcm", "audio/pcmu", "audio/pcma"]
    rate: int | None = None


class TurnDetection(Part):
    type: Literal["server_vad", "semantic_vad"]


class Input(Part):
    format: Format | None = None
    turn_detection: TurnDetection | None = None


class Audio(Part):
    input: Input | None = None


class Session(Part):
    type: Literal["transcription"] = "transcription"
    audio: Audio | None = None
    include: list[Literal["item.input_audio_transcription.logprobs"]] | None = None


class Configuration:
    """What a client may set, and how the session stands."""

    def __init__(self, session: str, model: str) -> None:
        self._session, self._model = session, model
        self.format = "audio/pcm"
        self.ends_by_itself = True  # the server finds the ends of utterances
        self.has_logprobs = False

    @property
    def rate(self) -> int:
        """Samples a second."""
        return RATES[self.format]

    @property
    def encoding(self) -> str:
        """Our name of the encoding."""
        return ENCODINGS[self.format]

    def update(self, fields: Any) -> None:
        """Set what `session.update` says.

        Raises:
            ValueError: it cannot be set.
        """
        try:
            asked = Session.model_validate(_as_new(fields))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(["session", *map(str, first["loc"])])
            got = repr(first["input"])[:QUOTED]
            raise ValueError(f"{expected_field(where, first['msg'])}, got {got}") from None
        given = asked.audio.input if asked.audio else None
        if given is not None:
            self._listen(given)
        if "include" in asked.model_fields_set:
            self.has_logprobs = bool(asked.include)

    def _listen(self, given: Input) -> None:
        """Set how audio is read."""
        if given.format is not None:
            if given.format.rate not in (None, RATES[given.format.type]):
                expected = f"{RATES[given.format.type]} for {given.format.type}"
                got = given.format.rate
                raise ValueError(f"session.audio.input.format.rate: expected {expected}, got {got}")
            self.format = given.format.type
        if "turn_detection" in given.model_fields_set:
            self.ends_by_itself = given.turn_detection is not None

    def content(self) -> dict[str, Any]:
        """Return the session as clients read it: what is in effect, and nothing else."""
        shape: dict[str, Any] = {"type": self.format}
        if self.format == "audio/pcm":
            shape["rate"] = self.rate
        turns = {"type": "server_vad"} if self.ends_by_itself else None
        return {
            "type": "transcription",
            "object": "realtime.transcription_session",
            "id": self._session,
            "audio": {
                "input": {
                    "format": shape,
                    "transcription": {"model": self._model, "language": None, "prompt": None},
                    "noise_reduction": None,
                    "turn_detection": turns,
                }
            },
            "include": [LOGPROBS] if self.has_logprobs else None,
        }


def _as_new(fields: Any) -> Any:
    """Return a session of the earlier form (`input_audio_format`) in today's form."""
    if not isinstance(fields, dict) or "audio" in fields:
        return fields
    found: dict[str, Any] = {}
    if "input_audio_format" in fields:
        name = fields["input_audio_format"]
        found["format"] = {"type": OLD_FORMATS.get(name, name) if isinstance(name, str) else name}
    if "turn_detection" in fields:
        found["turn_detection"] = fields["turn_detection"]
    rest = {key: value for key, value in fields.items() if key in ("type", "include")}
    return rest | {"audio": {"input": found}}
