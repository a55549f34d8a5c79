"""Where a client's key is, and which websocket subprotocol answers it."""

from typing import NamedTuple

from starlette.datastructures import Headers

SCHEMES = ("token", "bearer")
OPENAI_KEY = "openai-insecure-api-key."  # of a browser: the start of a subprotocol


class Credentials(NamedTuple):
    """What a request says of who sends it."""

    key: str | None
    subprotocol: str | None  # that a websocket's handshake is answered with


def credentials(headers: Headers) -> Credentials:
    """Return the key in the headers of a request.

    It is in `Authorization: Bearer KEY` (ours, OpenAI's) or `Authorization: Token KEY`
    (Deepgram's). A browser's websocket has it among its subprotocols: `token, KEY` or
    `bearer, KEY` (Deepgram's), or `realtime, openai-insecure-api-key.KEY` (OpenAI's); they may be
    in several lines (RFC 6455, 11.3.4).
    """
    scheme, _, key = headers.get("authorization", "").partition(" ")
    key = key.strip() if scheme.lower() in SCHEMES else ""
    lines = ",".join(headers.getlist("sec-websocket-protocol"))
    offered = [one.strip() for one in lines.split(",")]
    if offered[0].lower() in SCHEMES:
        key = key or (offered[1] if len(offered) > 1 else "")
    else:
        named = [one for one in offered if one.startswith(OPENAI_KEY)]
        key = key or "".join(named[:1]).removeprefix(OPENAI_KEY)
    return Credentials(key or None, offered[0] or None)
