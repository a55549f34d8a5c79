"""Conversations without sockets: a protocol, and what its client reads."""

import json
from typing import Any

from cortado.server.doors.own import Own
from cortado.server.protocol.events import ServerFacts
from cortado.server.protocol.limits import Limits
from cortado.server.protocol.messages import ServerMessage, Start
from cortado.server.protocol.parsing import parse_server
from cortado.server.protocol.server import ServerProtocol

FACTS = ServerFacts("1f", "small", step_ms=40, lookahead_ms=110)
START, END, SUSPEND = '{"type":"start"}', '{"type":"end"}', '{"type":"suspend"}'
LIMIT = 4096  # bytes of a message


def protocol(now: float = 0.0, **limits: Any) -> ServerProtocol:
    """Return the protocol of a connection that was just made."""
    return ServerProtocol(Limits(**{"max_message_bytes": LIMIT} | limits), now, Own())


def receive(
    talk: ServerProtocol, *frames: str | bytes, now: float = 0.0, recorded: bool = False
) -> None:
    """Receive frames and handle them at once: a start is accepted."""
    for frame in frames:
        talk.receive_data(frame, now)
        for event in talk.events_received():
            if isinstance(event, Start):
                token = "a token" if event.keep else None
                talk.accept(event, FACTS, now, token, recorded=recorded)
        talk.events_handled(now)


def started(
    now: float = 0.0, keep: bool = False, recorded: bool = False, **limits: Any
) -> ServerProtocol:
    """Return the protocol of a stream whose audio is awaited; `ready` is read."""
    talk = protocol(now, **limits)
    receive(talk, json.dumps({"type": "start", "keep": keep}), now=now, recorded=recorded)
    assert [message.type for message in read(talk)] == ["ready"]
    return talk


def read(talk: ServerProtocol, now: float = 0.0) -> list[ServerMessage]:
    """Read all that a client is sent."""
    found = []
    while (data := talk.data_to_send(now)) is not None:
        message = parse_server(data)
        assert message is not None
        found.append(message)
        talk.data_sent()
    return found


def types(messages: list[ServerMessage]) -> list[str]:
    """Return the types of messages."""
    return [message.type for message in messages]
