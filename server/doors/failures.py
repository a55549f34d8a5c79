"""Why a request over HTTP fails at a door: what each door says in its own words."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from cortado.server.access import Refused
from cortado.server.protocol.errors import REASONS
from cortado.server.protocol.messages import ErrorCode, ProtocolError

NO_ROOM = 507  # RFC 4918, section 11.5
STATUS = {  # of the HTTP answer; 500 for any other error
    ErrorCode.INVALID_AUDIO: 400,
    ErrorCode.INVALID_MESSAGE: 400,
    ErrorCode.MESSAGE_TOO_BIG: 413,
    ErrorCode.STREAM_TOO_LONG: 413,
    ErrorCode.SLOW_CLIENT: 408,
    ErrorCode.TOO_MANY_STREAMS: 429,
    ErrorCode.SHUTTING_DOWN: 503,
}
STATUSES = (401, 403, *sorted(set(STATUS.values())), 500, NO_ROOM)  # of requests for text
SECRET_STATUSES = (400, 401, 403, 408, 413, 503)  # of requests for a short-lived secret

logger = logging.getLogger(__name__)


class Misunderstood(Exception):
    """What a client asks for cannot be understood."""


FAILURES = (Refused, Misunderstood, ProtocolError, OSError)


@contextmanager
def understanding() -> Iterator[None]:
    """Take a ValueError within for the client's mistake; any other is a fault of ours.

    Raises: Misunderstood in its place.
    """
    try:
        yield
    except ValueError as error:
        raise Misunderstood(str(error)) from error


class Failure(NamedTuple):
    """What a client is told."""

    status: int
    code: str
    message: str
    headers: Mapping[str, str] | None = None


def failure(error: Exception, invalid: str) -> Failure:
    """Return what one of `FAILURES` means; `invalid` is the code of what cannot be understood."""
    match error:
        case Refused():
            return Failure(error.status_code, error.reason, error.detail, error.headers)
        case ProtocolError():
            seconds = REASONS[error.code].retry_after
            headers = None if seconds is None else {"Retry-After": str(round(seconds))}
            return Failure(STATUS.get(error.code, 500), error.code, error.message, headers)
        case OSError():  # of the temporary file
            logger.error("upload not kept", extra={"reason": str(error)})
            message = "expected room for the file in the server's temporary folder, got none"
            return Failure(NO_ROOM, "no_room", message)
        case _:
            return Failure(400, invalid, str(error))
