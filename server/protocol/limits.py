"""The limits of one conversation: the settings that the protocol enforces."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

PositiveSeconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]


class Limits(BaseModel):
    """The limits of one conversation; `server.settings.Settings` has them among its own."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    max_message_bytes: Annotated[int, Field(ge=1024, le=2**26)] = 262_144
    """Largest message of a client, in bytes; the server takes larger ones if this is not set and a
    suspended stream of its model is larger."""
    max_messages_per_second: Annotated[int, Field(ge=10, le=10**6)] = 2000
    """Frames of one websocket that are read in a second, pings among them; while it sends more, it
    is read more slowly."""
    max_speed: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 100.0
    """Seconds of audio of one stream that are taken in a second, after the first 60; faster clients
    are read more slowly; 0 for no limit."""
    outbox_characters: Annotated[int, Field(ge=1)] = 4096
    """Characters that may wait for a slow client before its stream ends."""
    transcript_characters: Annotated[int, Field(ge=1)] = 100_000
    """Characters that final repeats, the last of the stream: some two hours of speech."""
    send_timeout_seconds: PositiveSeconds = 10.0
    """Seconds that sending one message may take before the stream ends."""
    start_timeout_seconds: PositiveSeconds = 10.0
    """Seconds that a client has for its start message."""
    idle_timeout_seconds: PositiveSeconds = 30.0
    """Seconds without audio after which a stream that has not ended is closed."""
    max_stream_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 14_400.0
    """Seconds that a stream may last, in audio and by the clock; 0 for no limit."""
    record_seconds: PositiveSeconds = 600.0
    """Longest stream that is recorded, in seconds of audio."""
