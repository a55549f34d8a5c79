"""A real server in a thread, and a real client that says what it is told to."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import websockets
from torch import Tensor

from cortado.model.arrays import Samples
from cortado.model.backends.reference import ReferenceRecognizer, State
from cortado.model.emission import Character
from cortado.model.streaming.interface import StreamingRecognizer
from cortado.model.streaming.live import listen as hear
from cortado.server.run import Server, listen
from cortado.server.service import Service
from cortado.server.settings import Settings

START, FLUSH, END = '{"type":"start"}', '{"type":"flush"}', '{"type":"end"}'
KEPT = '{"type":"start","keep":true}'
PATIENCE = 60.0  # seconds; far more than anything here takes, on a busy machine too


def wait_for(condition: Callable[[], bool]) -> bool:
    """Wait until something is so; return whether that came about."""
    until = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


@dataclass(frozen=True)
class Running:
    """A server that runs."""

    server: Server
    page: str  # http://127.0.0.1:PORT

    @property
    def service(self) -> Service:
        return self.server.service

    @property
    def url(self) -> str:
        return self.page.replace("http", "ws", 1) + "/v1/stream"

    def is_at_rest(self) -> bool:
        """Wait until no stream and no connection is left; return whether that came about."""
        service, state = self.service, self.server.server_state
        return wait_for(lambda: not service.engine.active and not state.connections)

    def metric(self, name: str, **labels: str) -> float:
        return self.service.metrics.registry.get_sample_value(name, labels) or 0.0


@contextmanager
def running(online: StreamingRecognizer, **settings: Any) -> Iterator[Running]:
    """Run a server around `online`; the settings that are not given are the defaults."""
    common: dict[str, Any] = {"port": 0, "close_timeout_seconds": 0.5, "store": "memory"}
    common |= {"headroom": 1}  # a busy machine carries few streams
    service = Service(online, {}, "untrained", Settings(**common | settings))
    said: list[str] = []
    listening = threading.Event()

    def announce(line: str) -> None:
        said.append(line)
        listening.set()

    with listen(service.settings) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        server = Server(service, announce)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            assert listening.wait(PATIENCE)
            yield Running(server, said[0].split()[3])
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive()


@dataclass(frozen=True)
class Heard:
    """What a client got, to the end."""

    messages: list[dict[str, Any]]
    close_code: int | None

    @property
    def types(self) -> list[str]:
        return [message["type"] for message in self.messages]

    @property
    def error(self) -> str | None:
        last = self.messages[-1] if self.messages else {}
        return last["code"] if last.get("type") == "error" else None

    @property
    def text(self) -> str:
        return "".join(m["text"] for m in self.messages if m["type"] == "chars")

    @property
    def times(self) -> list[float]:
        return [time for m in self.messages if m["type"] == "chars" for time in m["times"]]


async def listened(connection: websockets.ClientConnection, *before: dict[str, Any]) -> Heard:
    """Read until the close; return all that came, `before` as well."""
    messages = list(before)
    try:
        async with asyncio.timeout(PATIENCE):
            async for frame in connection:
                messages.append(json.loads(frame))
    except websockets.ConnectionClosedError:
        pass
    return Heard(messages, connection.close_code)


async def lose(url: str, start: str, audio: bytes, characters: int = 0) -> dict[str, Any]:
    """Speak, hear so many characters, and lose the connection; return `ready`."""
    async with websockets.connect(url) as connection:
        await connection.send(start)
        ready: dict[str, Any] = json.loads(await connection.recv())
        await connection.send(audio)
        while characters > 0:
            characters -= len(json.loads(await connection.recv()).get("text", ""))
        connection.transport.abort()
    return ready


async def converse(url: str, *frames: str | bytes, **options: Any) -> Heard:
    """Send frames, reading meanwhile as a client should, and return all that came back."""
    options = {"max_size": None, "open_timeout": PATIENCE} | options
    async with websockets.connect(url, **options) as connection:
        reading = asyncio.create_task(listened(connection))
        try:
            for frame in frames:
                await connection.send(frame)
        except websockets.ConnectionClosed:
            pass
        return await reading


def say(url: str, *frames: str | bytes, **options: Any) -> Heard:
    """`converse`, for a test that has no other client."""
    return asyncio.run(converse(url, *frames, **options))


def resume(**fields: Any) -> str:
    """Return the message that goes on with a stream."""
    return json.dumps({"type": "resume", **fields})


def pcm(samples: Samples) -> bytes:
    """Return samples as 16-bit integers."""
    return np.round(samples * 32768).clip(-32768, 32767).astype("<i2").tobytes()


def rounded(samples: Samples) -> Samples:
    """Return samples as a server gets them from `pcm`."""
    return np.frombuffer(pcm(samples), "<i2").astype(np.float32) / np.float32(32768)


def cut(data: bytes, seed: int, longest: int = 96_000) -> list[bytes]:
    """Return `data` in pieces of random sizes, odd ones too."""
    random = np.random.default_rng(seed)
    pieces = []
    while data:
        size = int(longest ** random.uniform(0.3, 1))
        pieces.append(data[:size])
        data = data[size:]
    return pieces


def written(recognizer: StreamingRecognizer, samples: Samples) -> tuple[str, list[float]]:
    """Return the text of a recording and its times as programs have them without a server."""
    updates = hear(recognizer, [samples])
    return spelt([one for update in updates for one in update.characters])


def spelt(characters: list[Character]) -> tuple[str, list[float]]:
    """Return the text of characters and their times."""
    return "".join(c.text for c in characters), [c.time for c in characters]


class Stuck(ReferenceRecognizer):
    """A recogniser that loud audio can hold up."""

    go = threading.Event()

    def step(self, samples: Tensor, state: State) -> tuple[Tensor, State]:
        if samples.abs().max() > 0.99:
            self.go.wait()
        return super().step(samples, state)


class Fragile(ReferenceRecognizer):
    """A recogniser that cannot bear loud audio."""

    def step(self, samples: Tensor, state: State) -> tuple[Tensor, State]:
        if samples.abs().max() > 0.99:
            raise RuntimeError("too loud")
        return super().step(samples, state)
