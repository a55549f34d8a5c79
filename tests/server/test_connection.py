"""The shell around a protocol, with a socket that takes all at once."""

import asyncio

from cortado.server.connection import Connection
from cortado.server.protocol.events import Event
from cortado.server.protocol.messages import Endpoint
from cortado.tests.server.protocol.talk import started


class Socket:
    """A client that says nothing, and always has room for what it is sent."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    async def receive(self) -> dict[str, object]:
        await asyncio.Event().wait()
        return {}

    async def send_text(self, data: str) -> None:
        self.sent.append(data)

    async def close(self, code: int = 1000, reason: str | None = None) -> None:
        pass


async def test_others_have_their_turn_between_the_messages_of_a_client() -> None:
    async def handle(event: Event) -> None:
        pass

    talk, socket = started(), Socket()
    for number in range(10):
        talk.send_endpoint(number, 0.0, 0.0, 1.0)
    async with Connection(socket, talk, handle).open():
        before = 0
        while len(socket.sent) < 10:
            await asyncio.sleep(0)
            assert len(socket.sent) <= before + 1
            before = len(socket.sent)
    assert Endpoint.model_validate_json(socket.sent[-1]).utterance == 9
