"""The server's settings, each by environment variable (CORTADO_PORT=9000) or by flag.

`cortado serve` makes its flags from these fields (`--port 9000`); docs/settings.md lists them.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from cortado.server.protocol.limits import Limits, PositiveSeconds

ENV_PREFIX = "CORTADO_"

Backend = Literal[
    "auto", "fast", "fast-amx", "fast-int8", "fast-bf16", "fast-fp32", "reference", "cuda"
]


class Settings(Limits, BaseSettings):
    """The settings of `cortado serve`, the protocol's limits among them.

    A flag wins over the environment, the environment over the default.
    """

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, frozen=True, extra="ignore")

    host: Annotated[str, Field(min_length=1)] = Field(
        "127.0.0.1", description="Address to listen on; 0.0.0.0 for every interface."
    )
    port: int = Field(8000, ge=0, le=65_535, description="Port to listen on; 0 for any free one.")
    checkpoint: Path | None = Field(
        None, description="Folder of the checkpoint to serve; the shipped model if not set."
    )
    allowed_origins: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Web origins, separated by commas, whose pages may open streams besides the"
        " server's own, such as https://example.org; * for any.",
    )
    max_streams: int = Field(
        2048,
        ge=1,
        le=16_384,
        description="Streams at once, if the machine can carry as many; one more is refused:"
        " too_many_streams.",
    )
    headroom: float = Field(
        0.2,
        ge=0,
        le=1,
        description="Share of the time that the engine keeps free when it works out from its own"
        " speed how many streams it can carry; 1 for no such limit.",
    )
    backend: Backend = Field(
        "auto",
        description="Backend that runs the model: auto (the fast CPU backend if it supports the"
        " model), or one of fast, fast-amx, fast-int8, fast-bf16, fast-fp32, reference, cuda"
        " (a GPU).",
    )
    beam: int | None = Field(
        None,
        ge=1,
        le=32,
        description="Hypotheses of the search, 8 if not set; 1 for the greedy scan, which is"
        " cheapest and commits each character at once.",
    )
    hold: int | None = Field(
        None,
        ge=0,
        le=2000,
        description="Milliseconds after which the search commits a character at the latest, 280 if"
        " not set.",
    )
    lm: str | None = Field(
        None,
        description="Language model of the search, a file made by cortado lm, or none; the"
        " checkpoint's own if not set.",
    )
    vad: bool = Field(
        False,
        description="Whether a voice activity detector (Silero's) helps to find the ends of"
        " utterances, sooner; it needs the extra cortado-asr[vad].",
    )
    max_connections: int = Field(
        2048, ge=1, le=65_536, description="Connections at once; one more is answered HTTP 503."
    )
    buffer_seconds: PositiveSeconds = Field(
        10.0,
        description="Seconds of audio that may wait for the model, per stream; while they are full"
        " the connection is not read.",
    )
    receive_buffer_bytes: int = Field(
        131_072,
        ge=4096,
        le=2**26,
        description="Bytes of a connection that the system holds unread, so that a paused upload"
        " is not megabytes ahead.",
    )
    close_timeout_seconds: PositiveSeconds = Field(
        5.0, description="Seconds that a client has to answer a close before it is cut off."
    )
    drain_timeout_seconds: PositiveSeconds = Field(
        10.0, description="Seconds for telling streams of a shutdown before the server stops."
    )
    state_key: SecretStr | None = Field(
        None,
        min_length=16,
        description="Secret that signs suspended streams, 16 characters or more: servers that share"
        " it resume one another's; if not set, each knows its own only.",
    )
    keep_seconds: float = Field(
        30.0,
        ge=0,
        le=3600,
        allow_inf_nan=False,
        description="Seconds that a stream whose connection was lost is kept, if its client asked"
        " for it; 0 for never.",
    )
    keep_streams: int = Field(
        100,
        ge=0,
        le=16_384,
        description="Lost streams that are kept at once; the oldest is dropped first.",
    )
    record: Path | None = Field(
        None,
        description="Folder in which whole streams are recorded, audio and all, for cortado replay;"
        " none if not set.",
    )
    record_streams: int = Field(
        100, ge=1, description="Recordings that the folder may hold; no more are made then."
    )
    threads: int = Field(
        0,
        ge=0,
        le=1024,
        description="CPU threads of the model; 0 for one a core, of the reference backend one.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least severity that is logged."
    )
    log_format: Literal["text", "json"] = Field(
        "text", description="Form of a log line: for people or, as JSON, for machines."
    )

    @field_validator("allowed_origins", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return tuple(part.strip().rstrip("/") for part in value.split(",") if part.strip())


def read_settings(**flags: object) -> Settings:
    """Return the settings of the environment with `flags` over them; a flag of None is not given.

    Raises:
        ValueError: one cannot be used; the message names it, what was expected and what was got.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    try:
        return Settings(**given)  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = str(first["loc"][0])
        named = f"--{flag(name)}" if name in given else ENV_PREFIX + name.upper()
        raise ValueError(f"{named}: {first['msg'].lower()}, got {first['input']!r}") from None


def flag(name: str) -> str:
    """Return the flag of the setting `name`, without its dashes."""
    return name.replace("_", "-")
