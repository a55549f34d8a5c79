"""A soak: live streams that come and go for long, and faulty clients among them."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

import numpy as np
import websockets
from prometheus_client.parser import text_string_to_metric_families
from websockets.http11 import Response

from cortado.clients.connection import check_address
from cortado.server.protocol.pcm import encode
from cortado.server.sample import speech

RATE = 16_000  # Hz
CHUNK_SECONDS = 0.1
LONGEST = 20.0  # seconds of a stream
FAULTY = 0.1  # share of the clients
RECORDINGS = 8
BUSY = ("too_many_streams", "shutting_down")  # answers that are no fault
BUSY_STATUS = (429, 503)  # the same in place of a connection
PAUSE_SECONDS = 1.0  # after a connection that failed
LOST = {"type": "error", "code": "nothing"}  # a connection that closes without a word
MEMORY_GROWTH = 0.05  # that is allowed from the first quarter to the last
DELAY_GROWTH = 2.0
DELAY_FLOOR = 0.05  # seconds, below which a 99th percentile counts as flat


@dataclass(frozen=True)
class Sample:
    """What the server says of itself."""

    memory: float  # bytes
    capacity: float  # streams
    delays: dict[float, float]  # steps by their longest delay in seconds, cumulative

    def p99_since(self, before: "Sample") -> float:
        """Return the bound below which 99 of 100 delays since another sample were, in seconds."""
        counts = {bound: self.delays[bound] - before.delays[bound] for bound in self.delays}
        whole = max(counts.values(), default=0.0)
        return min((bound for bound, count in counts.items() if count >= 0.99 * whole), default=0.0)


@dataclass
class Findings:
    """What a soak found."""

    clients: Counter[str] = field(default_factory=Counter)  # by what they did
    wrong: list[str] = field(default_factory=list)  # what went wrong with honest ones
    samples: list[Sample] = field(default_factory=list)  # at even times

    def problems(self) -> list[str]:
        """Return what is wrong, a line each; nothing if all is well."""
        quarter = max(1, len(self.samples) // 4)
        found = list(dict.fromkeys(self.wrong))
        early, late = self.samples[:quarter], self.samples[-quarter:]
        before, after = (max(one.memory for one in part) for part in (early, late))
        if after > (1 + MEMORY_GROWTH) * before:
            found.append(f"memory grew from {before / 1e6:.0f} to {after / 1e6:.0f} MB")
        first = self.samples[quarter].p99_since(self.samples[0])
        last = self.samples[-1].p99_since(self.samples[-1 - quarter])
        if last > max(DELAY_FLOOR, DELAY_GROWTH * first):
            found.append(f"the 99th percentile of delays rose from {first:g} to {last:g} s")
        return found


def sample(url: str) -> Sample:
    """Return what the server at a websocket's address says of itself.

    Raises:
        ValueError: the address is no websocket's, or none of a server of this project.
        ConnectionError: no server answers there, or one that wants an API key.
    """
    check_address(url)
    parts = urlsplit(url)
    page = f"{parts.scheme.replace('ws', 'http')}://{parts.netloc}/metrics"
    try:
        with urlopen(page, timeout=30) as answer:
            text = answer.read().decode()
    except URLError as error:
        if isinstance(error, HTTPError) and error.code in (401, 403):
            expected = f"expected a server without keys at {url}"
            raise ConnectionError(f"{expected}, got one that wants an API key") from error
        raise ConnectionError(f"expected a running server at {page}: {error.reason}") from error

    try:
        every = [one for each in text_string_to_metric_families(text) for one in each.samples]
        values = {one.name: one.value for one in every if not one.labels}
        memory = values["process_resident_memory_bytes"]
        capacity = values["cortado_streams_capacity"]
    except (KeyError, ValueError) as error:  # another's page, or none of metrics
        raise ValueError(f"expected a server's metrics at {page}, got none: {error}") from None
    delays = (one for one in every if one.name == "cortado_processing_delay_seconds_bucket")
    return Sample(memory, capacity, {float(one.labels["le"]): one.value for one in delays})


class Soak:
    """Clients that come and go at one server."""

    def __init__(self, url: str, speed: float = 1.0, longest: float = LONGEST) -> None:
        """Speak to the server at `url`, so many times as fast as people do, for `longest` s."""
        self.findings = Findings()
        self._url, self._speed, self._longest = url, speed, longest
        said = np.resize(speech(), round(RATE * longest))
        starts = range(0, len(said), -(-len(said) // RECORDINGS))
        self._audio = [encode(np.roll(said, -start), "pcm_s16le") for start in starts]
        self._expected: dict[tuple[int, int], str] = {}  # text by recording and its length in bytes

    async def run(self, streams: int, seconds: float, progress: Callable[[float], None]) -> None:
        """Keep `streams` clients busy for so long."""
        until = monotonic() + seconds
        tasks = [asyncio.create_task(self._clients(k, until)) for k in range(streams)]
        try:
            for k in range(8):
                self.findings.samples.append(await asyncio.to_thread(sample, self._url))
                await asyncio.sleep(max(0.0, until - (7 - k) * seconds / 8 - monotonic()))
                progress((k + 1) / 8)
            await asyncio.gather(*tasks)
            self.findings.samples.append(await asyncio.to_thread(sample, self._url))
        finally:
            for task in tasks:
                task.cancel()

    async def _clients(self, seed: int, until: float) -> None:
        """Be one client after another."""
        chance = random.Random(seed)
        await asyncio.sleep(chance.random() * CHUNK_SECONDS)
        while monotonic() < until:
            kinds = [self._vanish, self._talk_nonsense, self._flood]
            kind = chance.choice(kinds) if chance.random() < FAULTY else self._speak
            self.findings.clients[kind.__name__.strip("_")] += 1
            which = chance.randrange(RECORDINGS)
            size = 2 * round(RATE * self._longest * chance.choice((0.1, 0.25, 0.5, 1.0)))
            try:
                await kind(which, size)
            except websockets.InvalidStatus as error:
                await self._refused(error.response)
            except (websockets.WebSocketException, OSError) as error:
                if kind == self._speak:
                    self.findings.wrong.append(f"an honest client's connection: {error}")
                await asyncio.sleep(PAUSE_SECONDS)

    async def _refused(self, response: Response) -> None:
        """Wait after a refusal in place of a connection; only a busy server may refuse."""
        if response.status_code in BUSY_STATUS:
            self.findings.clients["refused"] += 1
        else:
            self.findings.wrong.append(f"a client was refused by HTTP {response.status_code}")
        await asyncio.sleep(float(response.headers.get("Retry-After", PAUSE_SECONDS)))

    async def _pieces(self, socket: websockets.ClientConnection, audio: bytes) -> None:
        """Send audio at the pace of speech."""
        size, began = 2 * round(RATE * CHUNK_SECONDS), monotonic()
        for place in range(0, len(audio), size):
            due = began + place / (2 * RATE * self._speed)
            await asyncio.sleep(max(0.0, due - monotonic()))
            await socket.send(audio[place : place + size])

    async def _speak(self, which: int, size: int) -> None:
        """Speak; the text has to be that of all who said the same. Wait after a refusal."""
        async with websockets.connect(self._url, max_size=None) as socket:
            messages = asyncio.create_task(_messages(socket))
            with suppress(websockets.ConnectionClosed):  # what came before says why
                await socket.send('{"type":"start"}')
                await self._pieces(socket, self._audio[which][:size])
                await socket.send('{"type":"end"}')
            last = (await messages or [LOST])[-1]
        if last["type"] == "error" and last["code"] in BUSY:
            self.findings.clients["refused"] += 1
            await asyncio.sleep(float(last["retry_after"]))
            return
        if last["type"] != "final":
            self.findings.wrong.append(f"an honest client was told {last.get('code', last)}")
            return
        expected = self._expected.setdefault((which, size), last["text"])
        if last["text"] != expected:
            self.findings.wrong.append("two transcripts of the same audio differ")

    async def _vanish(self, which: int, size: int) -> None:
        """Hang up in the middle of speech."""
        async with websockets.connect(self._url) as socket:
            await socket.send('{"type":"start","keep":true}')
            await self._pieces(socket, self._audio[which][: size // 2])
            socket.transport.abort()

    async def _talk_nonsense(self, which: int, size: int) -> None:
        """Send what means nothing."""
        async with websockets.connect(self._url) as socket:
            await socket.send('{"type":"start"}')
            await socket.send(json.dumps({"type": "start", "nonsense": np.pi * size}))
            await _messages(socket)

    async def _flood(self, which: int, size: int) -> None:
        """Send very many empty messages and read nothing."""
        async with websockets.connect(self._url) as socket:
            await socket.send('{"type":"start"}')
            socket.transport.pause_reading()
            for _ in range(5000):
                await socket.send(b"")
            socket.transport.abort()


async def _messages(socket: websockets.ClientConnection) -> list[dict[str, str]]:
    found = []
    try:
        async for message in socket:
            found.append(json.loads(message))
    except websockets.ConnectionClosedError:
        pass
    return found
