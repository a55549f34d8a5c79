"""The limits of one conversation: the settings that the protocol enforces."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

PositiveSeconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]


class Limits(BaseModel):
    """The limits of one conversation; `server.settings.Settings` has them among its own."""

    model_config = ConfigDict(frozen=True)

    max_message_bytes: int = Field(
        262_144, ge=1024, le=2**26, description="Largest message of a client, in bytes."
    )
    max_messages_per_second: int = Field(
        2000,
        ge=10,
        le=10**6,
        description="Frames of one websocket that are read in a second, pings among them; while it"
        " sends more, it is read more slowly.",
    )
    max_speed: float = Field(
        100.0,
        ge=0,
        allow_inf_nan=False,
        description="Seconds of audio of one stream that are taken in a second, after the first 60;"
        " faster clients are read more slowly; 0 for no limit.",
    )
    outbox_characters: int = Field(
        4096, ge=1, description="Characters that may wait for a slow client before its stream ends."
    )
    transcript_characters: int = Field(
        100_000,
        ge=1,
        description="Characters that final repeats, the last of the stream: some two hours of"
        " speech.",
    )
    send_timeout_seconds: PositiveSeconds = Field(
        10.0, description="Seconds that sending one message may take before the stream ends."
    )
    start_timeout_seconds: PositiveSeconds = Field(
        10.0, description="Seconds that a client has for its start message."
    )
    idle_timeout_seconds: PositiveSeconds = Field(
        30.0, description="Seconds without audio after which a stream that has not ended is closed."
    )
    max_stream_seconds: float = Field(
        14_400.0,
        ge=0,
        allow_inf_nan=False,
        description="Seconds that a stream may last, in audio and by the clock; 0 for no limit.",
    )
    record_seconds: PositiveSeconds = Field(
        600.0, description="Longest stream that is recorded, in seconds of audio."
    )
