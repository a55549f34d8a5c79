"""A connection whose audio has several channels, as a connection for each of them."""

import asyncio
from collections.abc import Callable, Coroutine, MutableMapping, Sequence
from typing import Any

from cortado.server.connection import Socket

Message = MutableMapping[str, Any]  # as ASGI has them
LOST: Message = {"type": "websocket.disconnect"}
NORMAL = 1000  # RFC 6455, section 7.4.1


class Channel:
    """The end of one channel: a `Socket`, in which one message waits at most."""

    def __init__(self, channels: "Channels") -> None:
        self._channels = channels
        self._message = LOST
        self._is_lost = False
        self._room, self._there = asyncio.Event(), asyncio.Event()
        self._room.set()

    async def receive(self) -> Message:
        """Return the next message; all channels are in it."""
        await self._there.wait()
        if self._is_lost:
            return LOST
        self._there.clear()
        self._room.set()
        return self._message

    async def put(self, message: Message) -> None:
        """Leave a message once the last is taken."""
        await self._room.wait()
        if not self._is_lost:
            self._room.clear()
            self._message = message
            self._there.set()

    def lose(self) -> None:
        """Lose the connection: nobody waits here any more."""
        self._is_lost = True
        self._room.set()
        self._there.set()

    async def send_text(self, data: str) -> None:
        """Send what this channel answers."""
        await self._channels.send_text(data)

    async def close(self, code: int = NORMAL, reason: str | None = None) -> None:
        """End this channel; an error ends the others, too."""
        await self._channels.close(self, code, reason)


class Channels:
    """Gives each message of a client to all channels, and sends what they answer."""

    def __init__(self, socket: Socket, count: int) -> None:
        self._socket = socket
        self._open = [Channel(self) for _ in range(count)]
        self._turn = asyncio.Lock()  # to send

    async def talk(self, talks: Sequence[Callable[[Channel], Coroutine[Any, Any, None]]]) -> None:
        """Let each of `talks` have the end of a channel; return when all are over."""
        reading = asyncio.create_task(self._read())
        try:
            async with asyncio.TaskGroup() as group:
                for talk, channel in zip(talks, list(self._open), strict=True):
                    group.create_task(talk(channel))
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _read(self) -> None:
        """Pass messages on until the connection is lost, each once all have taken the last."""
        try:
            while (message := await self._socket.receive())["type"] != LOST["type"]:
                for channel in list(self._open):
                    await channel.put(message)
        finally:
            self._lose(self._open)

    async def send_text(self, data: str) -> None:
        """Send a message of one channel."""
        async with self._turn:
            await self._socket.send_text(data)

    async def close(self, channel: Channel, code: int, reason: str | None) -> None:
        """End one channel; close the connection with the last, or for an error."""
        if channel not in self._open:
            return
        self._open.remove(channel)
        channel.lose()
        if code != NORMAL or not self._open:
            others, self._open = self._open, []
            self._lose(others)
            await self._socket.close(code, reason)

    @staticmethod
    def _lose(channels: Sequence[Channel]) -> None:
        for channel in channels:
            channel.lose()
