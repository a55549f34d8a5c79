"""Why the server ends a conversation with an error, how it closes, and what helps."""

from typing import NamedTuple

from cortado.server.protocol.messages import ErrorCode


class Reason(NamedTuple):
    """What has happened, and what a client can do, if anything: the words of the reference."""

    close: int  # code of the websocket (RFC 6455, section 7.4.1, and the IANA registry)
    why: str
    helps: str = ""
    retry_after: float | None = None  # seconds after which a client may come again


REASONS = {
    ErrorCode.INVALID_MESSAGE: Reason(
        1007, "A text frame is not one of the JSON messages above.", "Correct the client."
    ),
    ErrorCode.UNEXPECTED_MESSAGE: Reason(
        1008,
        "A message is out of order: audio before `start`, a second `start`, anything after `end`, "
        "`flush` where it cannot be.",
        "Correct the client.",
    ),
    ErrorCode.UNSUPPORTED_ENCODING: Reason(
        1003,
        "`encoding` is not one of the table of audio, or a compressed stream is to be kept or "
        "suspended.",
        "Convert the audio.",
    ),
    ErrorCode.UNSUPPORTED_SAMPLE_RATE: Reason(
        1003,
        "`sample_rate` is not a whole number from 8000 to 192000, a stream that is to be "
        "suspended is not at 16000, or compressed audio is given one.",
        "Convert the audio.",
    ),
    ErrorCode.INVALID_AUDIO: Reason(
        1007,
        "The audio is not what `encoding` says, or a float sample is NaN or infinite.",
        "Correct the source of the audio.",
    ),
    ErrorCode.INVALID_STATE: Reason(
        1007,
        "The `state` of `resume` is damaged, was signed with another key, comes from another "
        "model, backend or version, or needs a voice activity detector that this server does not "
        "have. Or `characters` or `utterances` is no count that the stream can have.",
        "Begin a new stream.",
    ),
    ErrorCode.UNKNOWN_STREAM: Reason(
        1008,
        "No stream is kept under the `token` of `resume`: it was not lost, or too long ago.",
        "Begin a new stream.",
    ),
    ErrorCode.MESSAGE_TOO_BIG: Reason(
        1009,
        "A message is larger than `max_message_bytes`. A message of 64 KiB more than that is "
        "answered with close 1009 alone.",
        "Send smaller frames.",
    ),
    ErrorCode.START_TIMEOUT: Reason(1008, "No `start` came within `start_timeout_seconds`."),
    ErrorCode.IDLE_TIMEOUT: Reason(
        1008,
        "No audio came for `idle_timeout_seconds`, and no `keep_alive` or `end`.",
        "Send silence, `keep_alive` or `end`.",
    ),
    ErrorCode.STREAM_TOO_LONG: Reason(
        1008, "The stream lasted longer than `max_stream_seconds`.", "Open a new one."
    ),
    ErrorCode.SLOW_CLIENT: Reason(
        1008,
        "The client did not read its messages for `send_timeout_seconds`, or more than "
        "`outbox_characters` were waiting for it.",
        "Read while sending.",
    ),
    ErrorCode.TAKEN_OVER: Reason(
        1008, "Another connection has resumed the stream with its `token`."
    ),
    ErrorCode.TOO_MANY_STREAMS: Reason(
        1013,
        "The server has as many live streams as it admits: `max_streams`, or what its machine can "
        "carry. Or its machine is so busy that a step of the model has taken more than 1.5 s.",
        "Try again later.",
        retry_after=5.0,
    ),
    ErrorCode.SHUTTING_DOWN: Reason(
        1012,
        "The server is being stopped or restarted.",
        "Connect again, and resume by the token.",
        retry_after=1.0,
    ),
    ErrorCode.INTERNAL_ERROR: Reason(
        1011,
        "The server has a fault. It is logged under the name of the session.",
        "Connect again, and resume by the token.",
    ),
}
