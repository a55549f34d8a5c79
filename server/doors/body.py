"""Bodies of requests to the doors: bounded, and read as JSON."""

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from cortado.server.protocol.messages import ErrorCode, ProtocolError
from cortado.server.protocol.parsing import explained

JSON_BYTES = 65_536
M = TypeVar("M", bound=BaseModel)


def bounded(request: Request, limit: int, expected: str) -> Request:
    """Return a request whose body has at most `limit` bytes.

    To read more of it, or after the client has hung up, raises a ProtocolError, which says what was
    `expected`.
    """
    left = limit

    async def receive() -> Any:
        nonlocal left
        message = await request.receive()
        left -= len(message.get("body", b""))
        if left < 0:
            raise ProtocolError(ErrorCode.MESSAGE_TOO_BIG, f"expected {expected}, got more")
        if message["type"] == "http.disconnect":
            raise ProtocolError(ErrorCode.SLOW_CLIENT, f"expected {expected}, got a part of it")
        return message

    return Request(request.scope, receive)


async def read_json(request: Request, kind: type[M]) -> M:
    """Return a body of JSON; one that is empty has no fields.

    Raises:
        ValueError: it is another.
        ProtocolError: it is too long.
    """
    whole = bounded(request, JSON_BYTES, f"a body of at most {JSON_BYTES} bytes")
    body = await whole.body()
    try:
        return kind.model_validate_json(body or b"{}")
    except ValidationError as error:
        raise ValueError(explained(error, "body: expected a JSON object")) from None
