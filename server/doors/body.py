"""Bodies of requests to the doors: bounded, and read as JSON."""

import asyncio
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from cortado.server.protocol.messages import ErrorCode, ProtocolError
from cortado.server.protocol.parsing import check_fields, explained
from cortado.server.streams import shutting_down

JSON_BYTES = 65_536
M = TypeVar("M", bound=BaseModel)


def bounded(request: Request, limit: int, expected: str, draining: asyncio.Event) -> Request:
    """Return a request whose body has at most `limit` bytes.

    To read more of it, after the client has hung up, or once the server is `draining`, raises a
    ProtocolError, which says what was `expected`.

    Raises: ProtocolError if the body is announced as longer, before any of it is read.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        raise ProtocolError(
            ErrorCode.MESSAGE_TOO_BIG, f"expected {expected}, got {announced} bytes"
        )
    left = limit

    async def receive() -> Any:
        nonlocal left
        coming = asyncio.ensure_future(request.receive())
        going = asyncio.ensure_future(draining.wait())
        try:
            await asyncio.wait([coming, going], return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                raise shutting_down()
            message = coming.result()
        finally:
            coming.cancel()
            going.cancel()
        left -= len(message.get("body", b""))
        if left < 0:
            raise ProtocolError(ErrorCode.MESSAGE_TOO_BIG, f"expected {expected}, got more")
        if message["type"] == "http.disconnect":
            raise ProtocolError(ErrorCode.SLOW_CLIENT, f"expected {expected}, got a part of it")
        return message

    return Request(request.scope, receive)


async def read_json(request: Request, kind: type[M], draining: asyncio.Event) -> M:
    """Return a body of JSON; one that is empty has no fields.

    Raises:
        ValueError: it is another.
        ProtocolError: it is too long, has too many fields, or does not come as a whole before the
            server is `draining`.
    """
    whole = bounded(request, JSON_BYTES, f"a body of at most {JSON_BYTES} bytes", draining)
    body = await whole.body()
    check_fields(body)
    try:
        return kind.model_validate_json(body or b"{}")
    except ValidationError as error:
        raise ValueError(explained(error, "body: expected a JSON object")) from None
