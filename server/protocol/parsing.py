"""JSON to messages of `/v1/stream`, and what is said where it is none of them."""

from typing import Annotated, get_args

from pydantic import Field, TypeAdapter, ValidationError

from cortado.model.streaming.options import MAX_PHRASE, MAX_PHRASES
from cortado.server.protocol.messages import (
    MAX_SAMPLE_RATE,
    MIN_SAMPLE_RATE,
    AnyEncoding,
    ClientMessage,
    ErrorCode,
    ProtocolError,
    ServerMessage,
    Start,
)

QUOTED = 60  # characters of a client's input that an error or a warning repeats
MAX_WARNINGS = 64  # that an answer of a door has
UNWEIGHED = (  # of phrases
    "it has no effect here: the server has no search (--beam 1), or its model writes no spaces"
)
MAX_COMMAS = 1000  # of a JSON message, those in phrases too; one with more is not even read

_CLIENT: TypeAdapter[ClientMessage] = TypeAdapter(
    Annotated[ClientMessage, Field(discriminator="type")]
)
_SERVER: TypeAdapter[ServerMessage] = TypeAdapter(
    Annotated[ServerMessage, Field(discriminator="type")]
)
UNKNOWN = "union_tag_invalid"  # pydantic's word for a type that is not among ours


def parse_client(text: str) -> ClientMessage:
    """Return the client's message that the JSON `text` spells.

    Raises: ProtocolError if it spells none.
    """
    check_fields(text)
    try:
        return _CLIENT.validate_json(text)
    except ValidationError as error:
        raise _protocol_error(error) from None


def check_fields(text: str | bytes) -> None:
    """Raise a ProtocolError for a JSON text of so many fields that it would take long to read."""
    commas = text.count(b",") if isinstance(text, bytes) else text.count(",")
    if commas > MAX_COMMAS:
        message = f"expected at most {MAX_COMMAS} commas, got {commas}"
        raise ProtocolError(ErrorCode.INVALID_MESSAGE, message)


def start_of(**fields: object) -> Start:
    """Return the `start` that has these fields.

    Raises: ValueError if one of them is wrong.
    """
    try:
        found = _CLIENT.validate_python({"type": "start", **fields})
    except ValidationError as error:
        raise ValueError(_protocol_error(error).message) from None
    assert isinstance(found, Start)
    return found


def parse_server(text: str) -> ServerMessage | None:
    """Return the server's message that the JSON `text` spells; fields yet unknown are ignored.

    None is for a message of a type yet unknown, which clients ignore.

    Raises: ValueError if it spells none.
    """
    try:
        return _SERVER.validate_json(text)
    except ValidationError as error:
        if [each["type"] for each in error.errors(include_url=False)] == [UNKNOWN]:
            return None
        raise


def quoted(given: object) -> str:
    """Return what a client has given, as an error repeats it."""
    found = repr(given)
    return found if len(found) <= QUOTED else found[:QUOTED] + "…"


def expected_field(name: str, message: str) -> str:
    """Return what a field was expected to be, by pydantic's message of why it is not."""
    return f"expected {name} to be {message.partition('should be ')[2] or message.lower()}"


def explained(error: ValidationError, expected: str, *within: str) -> str:
    """Return what is wrong first, `within` a part; `expected` says what the whole should be."""
    first = error.errors(include_url=False)[0]
    got = quoted(first["input"])
    if not first["loc"]:
        return f"{expected}, got {got}"
    where = ".".join(map(str, (*within, *first["loc"])))
    return f"{expected_field(where, first['msg'])}, got {got}"


def _protocol_error(error: ValidationError) -> ProtocolError:
    """Return the error of the first mistake in a client's message."""
    first = error.errors(include_url=False)[0]
    got = quoted(first["input"])
    where = first["loc"][-1] if first["loc"] else ""
    if first["type"] == "extra_forbidden":
        message = f"expected no field but those of {first['loc'][0]!r}, got {quoted(where)}"
        return ProtocolError(ErrorCode.INVALID_MESSAGE, message)
    if where == "sample_rate":
        expected = f"a sample_rate from {MIN_SAMPLE_RATE} to {MAX_SAMPLE_RATE} Hz, a whole number"
        return ProtocolError(ErrorCode.UNSUPPORTED_SAMPLE_RATE, f"expected {expected}, got {got}")
    if where == "encoding":
        expected = "an encoding of " + ", ".join(get_args(AnyEncoding))
        return ProtocolError(ErrorCode.UNSUPPORTED_ENCODING, f"expected {expected}, got {got}")
    if "phrases" in first["loc"]:
        expected = f"phrases: at most {MAX_PHRASES} texts of at most {MAX_PHRASE} characters"
        return ProtocolError(ErrorCode.INVALID_MESSAGE, f"expected {expected}, got {got}")
    if first["type"] == "value_error":  # a check of ours
        return ProtocolError(
            ErrorCode.INVALID_MESSAGE, f"{first['ctx']['error']}, got both or none"
        )
    if len(first["loc"]) > 1:  # of a field, not of the whole
        message = f"{expected_field(str(where), first['msg'])}, got {got}"
        return ProtocolError(ErrorCode.INVALID_MESSAGE, message)
    kinds = '"start", "resume", "flush", "keep_alive", "suspend" or "end"'
    message = f"expected a JSON object of type {kinds}, got {got}"
    return ProtocolError(ErrorCode.INVALID_MESSAGE, message)
