"""What a client that means harm can do to the others: no more than its own share."""

import asyncio
import http.client
import json
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
import uvicorn
import websockets
from torch import Tensor
from uvicorn.middleware.proxy_headers import _TrustedHosts
from uvicorn.server import ServerState

from cortado.model.backends.choice import load_recognizer
from cortado.model.backends.reference import ReferenceRecognizer, State
from cortado.server import engine
from cortado.server import transport as transport_module
from cortado.server.connection_limits import Connections, Turns
from cortado.server.metrics import Metrics
from cortado.server.service import roomy
from cortado.server.settings import read_settings
from cortado.server.transport import (
    MAX_FRAGMENTS,
    MAX_PIPELINED_BYTES,
    PIECE,
    TURN_FRAMES,
    HttpConnection,
    WebSocketConnection,
    bounded,
)
from cortado.tests.server.running import PATIENCE, START, Running, running

HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
READ = 256 * 1024  # bytes that asyncio reads at most at once
CONNECTION_BYTES = 3_200_000  # docs/threats.md: the most memory of one connection
MASK = bytes(4)


def frame(opcode: int, data: bytes = b"", *, last: bool = True) -> bytes:
    """Return a client's frame of up to 125 bytes (RFC 6455, section 5.2)."""
    return bytes([opcode | 0x80 * last, 0x80 | len(data)]) + MASK + data


class Transport(asyncio.Transport):
    """A transport without a socket."""

    def __init__(self, **extra: Any) -> None:
        super().__init__(extra)
        self.written = b""
        self.reads, self.closed, self.unsent = True, False, 0

    def write(self, data: Any) -> None:
        self.written += data

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def close(self) -> None:
        self.closed = True

    abort = close

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        pass

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


async def page(scope: Any, receive: Any, send: Any) -> None:
    """Accept a websocket and forget its messages; answer PUT with its size, GET with 20,000."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (await receive())["type"] != "websocket.disconnect":
            pass
    else:
        size, more = 0, scope["method"] == "PUT"
        while more:
            message = await receive()
            size, more = size + len(message["body"]), message["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        body = str(size).encode() if scope["method"] == "PUT" else bytes(20_000)
        await send({"type": "http.response.body", "body": body})


def connections(**settings: Any) -> tuple[HttpConnection, WebSocketConnection]:
    """Return one connection of each kind, neither of them connected."""
    limits = Connections(read_settings(**settings), Metrics())
    http, websocket = bounded(limits)
    config = uvicorn.Config(page, http=http, ws=websocket, log_config=None)
    config.load()
    return http(config, ServerState(), {}), websocket(config, ServerState(), {})


async def turns(count: int) -> None:
    """Let the event loop go round some times."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.001)


async def share() -> float:
    """Return which share of the time the event loop is busy."""
    await asyncio.sleep(0.3)  # after what comes at once
    spent, began = time.thread_time(), time.monotonic()
    await asyncio.sleep(0.5)
    return (time.thread_time() - spent) / (time.monotonic() - began)


async def opened(**settings: Any) -> tuple[WebSocketConnection, Transport]:
    """Return a websocket after its handshake."""
    _, websocket = connections(**settings)
    return websocket, await shaken(websocket)


async def shaken(websocket: WebSocketConnection) -> Transport:
    """Do a websocket's handshake; return its transport."""
    websocket.limits.opened("")
    transport = Transport()
    websocket.connection_made(transport)
    websocket.data_received(HANDSHAKE)
    await turns(5)
    assert b" 101 " in transport.written
    return transport


@pytest.mark.parametrize("opcode", [0x1, 0x2, 0x9, 0xA])  # text, binary, ping, pong
async def test_a_flood_of_tiny_frames_gets_no_more_than_its_turn_and_its_rate(opcode: int) -> None:
    began = time.monotonic()
    websocket, transport = await opened(max_messages_per_second=1000)
    handled = 0
    count = websocket.handle_events

    def counted() -> None:
        nonlocal handled
        handled += len(websocket.conn.events)
        count()

    websocket.handle_events = counted  # type: ignore[method-assign]
    websocket.data_received(frame(opcode) * (READ // 6))
    assert handled <= TURN_FRAMES + PIECE // 6  # others have their turn
    assert not transport.reads  # and nothing more is read
    await turns(2000)
    passed = time.monotonic() - began
    assert handled <= 1000 * (1 + passed) + TURN_FRAMES + PIECE  # a burst, and what is due since
    assert len(websocket._unread) > READ // 2
    assert websocket.queue.qsize() <= PIECE
    websocket.connection_lost(None)


async def test_many_floods_together_leave_most_of_the_time_to_others() -> None:
    first, _ = await opened(max_messages_per_second=10**6)
    all_of_them = [first, *(type(first)(first.config, ServerState(), {}) for _ in range(49))]
    for one in all_of_them[1:]:
        await shaken(one)
    for one in all_of_them:
        one.data_received(frame(0xA) * (READ // 6))
    assert await share() < 0.5
    for one in all_of_them:
        one.connection_lost(None)


async def test_who_sends_many_frames_is_not_read_while_it_waits_for_its_turn() -> None:
    websocket, transport = await opened()
    websocket.data_received(frame(0xA) * 200)
    await until(lambda: transport.reads)
    websocket.limits.frames._busy = True  # another's turn
    websocket.data_received(frame(0xA))
    assert not transport.reads
    websocket.limits.frames._turn()
    assert transport.reads
    websocket.connection_lost(None)


async def test_no_ping_is_answered_to_a_client_that_does_not_read() -> None:
    websocket, transport = await opened()
    websocket.pause_writing()  # what asyncio says where WRITE_BUFFER bytes are unsent
    before = len(transport.written)
    websocket.data_received(frame(0x9) * 1000)
    await turns(100)
    assert len(transport.written) == before
    assert not transport.reads
    websocket.resume_writing()
    await until(lambda: len(transport.written) == before + 2000)
    assert transport.written[before:] == b"\x8a\x00" * 1000
    await until(lambda: transport.reads)
    websocket.connection_lost(None)


async def test_a_message_of_very_many_fragments_is_refused() -> None:
    websocket, transport = await opened(max_messages_per_second=10**6)
    pieces = frame(0x2, b"1", last=False) + frame(0, b"2", last=False) * (2 * MAX_FRAGMENTS)
    websocket.data_received(pieces)
    await until(lambda: b"fragments" in transport.written)
    assert not websocket._unread
    assert len(websocket.frames) <= MAX_FRAGMENTS
    websocket.connection_lost(None)


def test_who_sends_all_before_reading_hears_that_a_message_was_far_too_big(
    at_rest: Running,
) -> None:
    size = 3_000_000
    with knocked(at_rest) as connection:
        connection.sendall(bytes([0x82, 0xFF]) + size.to_bytes(8) + MASK + bytes(size))
        heard = b"".join(iter(lambda: connection.recv(4096), b""))
    assert heard[2:4] == (1009).to_bytes(2)
    assert b"frame with 3000000 bytes exceeds limit" in heard


async def test_what_comes_after_a_breach_of_the_protocol_is_dropped_until_nothing_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transport_module, "QUIET_SECONDS", 0.01)
    websocket, transport = await opened()
    websocket.data_received(frame(0x3))  # no opcode of RFC 6455
    written = transport.written
    for _ in range(5):
        websocket.data_received(frame(0x2) * READ)
        assert transport.reads
        assert not websocket._unread
        websocket._close_when_quiet(0)
        assert not transport.closed
    assert transport.written == written
    await until(lambda: transport.closed)
    websocket.connection_lost(None)


async def test_who_goes_on_sending_after_a_breach_of_the_protocol_is_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transport_module, "QUIET_SECONDS", PATIENCE)  # as if it never were
    websocket, transport = await opened(close_timeout_seconds=0.05)
    websocket.data_received(frame(0x3))
    await until(lambda: transport.closed)
    websocket.connection_lost(None)


@pytest.mark.parametrize(
    "wrong",
    [b"Content-Length: 5\r\n", b"X: 1\r\n" * 130, b"X: " + b"1" * 9000 + b"\r\n"],
    ids=["body", "headers", "header"],
)
async def test_a_handshake_that_cannot_be_read_is_answered_at_once(wrong: bytes) -> None:
    http, _ = connections()
    transport = Transport()
    http.connection_made(transport)
    http.data_received(HANDSHAKE[:-2] + wrong + b"\r\n")
    await turns(3)
    assert transport.written.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"nosniff" in transport.written
    assert transport.closed


async def answered(transport: Transport) -> bytes:
    """Return the body of the answer to a request, once it has come."""
    while not transport.written.endswith(b"0\r\n\r\n"):
        await asyncio.sleep(0.001)
    return transport.written.rpartition(b"\r\n0\r\n")[0].rpartition(b"\r\n")[2]


@pytest.mark.parametrize(
    ("body", "size"), [(b"1\r\nx\r\n" * (READ // 6) + b"0\r\n\r\n", READ // 6), (bytes(READ), READ)]
)
async def test_a_body_gets_no_more_than_its_turn_and_is_taken_whole(body: bytes, size: int) -> None:
    http, _ = connections()
    transport = Transport()
    http.connection_made(transport)
    length = b"Transfer-Encoding: chunked" if len(body) > size else b"Content-Length: %d" % size
    http.data_received(b"PUT / HTTP/1.1\r\nHost: x\r\n" + length + b"\r\n\r\n")
    http.data_received(body)
    assert len(http.cycle.body) < size / 2  # others have their turn
    assert len(http._unread) > len(body) / 2
    assert not transport.reads  # and nothing more is read
    assert await answered(transport) == str(size).encode()
    assert transport.reads
    http.connection_lost(None)


async def test_many_bodies_together_leave_most_of_the_time_to_others() -> None:
    first, _ = connections()
    all_of_them = [first, *(type(first)(first.config, ServerState(), {}) for _ in range(49))]
    for one in all_of_them:
        one.connection_made(Transport())
        one.data_received(b"PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        one.data_received(b"1\r\nx\r\n" * (READ // 6))
    assert await share() < 0.5
    assert sum(one.cycle is not None for one in all_of_them) > 1, "one after another"
    for one in all_of_them:
        one.connection_lost(None)


async def test_who_sends_requests_without_reading_answers_is_cut_off() -> None:
    http, _ = connections()
    transport = Transport()
    http.connection_made(transport)
    request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    http.data_received(request * 3)
    await turns(20)
    assert transport.written.count(b"200 OK") == 3  # a few are answered
    http.data_received(request * (2 * MAX_PIPELINED_BYTES // len(request)))
    await until(lambda: transport.closed)  # once it is its turn
    http.connection_lost(None)


@pytest.mark.parametrize(
    ("sent", "unsent"),
    [
        (b"", 0),
        (b"GET / HT", 0),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 0),  # kept alive, without a second request
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 100),  # an answer that is not read
    ],
)
async def test_a_connection_without_a_request_has_a_deadline(sent: bytes, unsent: int) -> None:
    http, _ = connections()
    transport = Transport()
    http.connection_made(transport)
    http.data_received(sent) if sent else None
    await turns(5)
    transport.unsent = unsent
    http._look()
    if not transport.closed:  # the request was whole: the next one is missed, or the reading
        http.data_received(b"G")
        http._look()
    assert transport.closed
    http.connection_lost(None)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"max_connections": 1}, "too_many_connections"),
        ({"max_connections_per_address": 1}, "too_many_connections_of_address"),
    ],
)
def test_one_connection_too_many_is_refused_until_another_ends(
    settings: dict[str, int], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    metrics = Metrics()
    limits = Connections(read_settings(**settings, trusted_proxies=("192.0.2.9",)), metrics)
    assert limits.opened("192.0.2.1") is None
    assert limits.opened("192.0.2.1") == reason
    limits.closed("192.0.2.1")
    assert limits.opened("192.0.2.1") is None
    refused = metrics.registry.get_sample_value(
        "cortado_connections_refused_total", {"reason": reason}
    )
    assert refused == 1
    [line] = caplog.records
    assert line.message == "connection refused"
    assert (vars(line)["reason"], vars(line)["address"]) == (reason, "192.0.2.1")


def test_connections_from_one_network_of_ipv6_count_as_one_address() -> None:
    limits = Connections(read_settings(max_connections_per_address=1), Metrics())
    assert limits.opened("2a00:1450:4001:80e::1") is None
    assert limits.opened("2a00:1450:4001:80e::2") == "too_many_connections_of_address"
    limits.closed("2a00:1450:4001:80e::1")
    assert not limits._by_address
    assert limits.opened("2a00:1450:4001:80e::2") is None


@pytest.mark.parametrize(
    ("proxies", "address"),
    [
        ("192.0.2.9", "192.0.2.9"),
        ("10.0.0.0/8,2001:db8::/32", "10.1.2.3"),
        ("10.0.0.0/8,2001:db8::/32", "2001:db8::1"),
        ("10.1.1.1/8", "10.1.2.3"),
        ("*,10.0.0.0/8", "192.0.2.9"),
    ],
)
def test_a_trusted_proxy_speaks_for_many(proxies: str, address: str) -> None:
    settings = read_settings(max_connections_per_address=1, trusted_proxies=proxies)
    limits = Connections(settings, Metrics())
    assert [limits.opened(address) for _ in range(3)] == [None] * 3
    assert address in _TrustedHosts(list(settings.trusted_proxies)), "as uvicorn has it"


def test_others_do_not_speak_for_many() -> None:
    settings = read_settings(max_connections_per_address=1, trusted_proxies="10.0.0.0/8")
    limits = Connections(settings, Metrics())
    for address in ("192.0.2.9", "::a00:1", ""):
        assert [limits.opened(address) is None for _ in range(2)] == [True, False]


async def test_text_that_is_no_utf_8_ends_the_conversation_and_is_no_line_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    websocket, transport = await opened()
    websocket.data_received(frame(0x1, b"\xff\xfe"))
    await until(lambda: b"\x03\xefno UTF-8" in transport.written)  # a close of 1007
    assert not caplog.records
    websocket.connection_lost(None)


async def test_where_a_request_begins_less_rest_follows() -> None:
    called = list[str]()

    def work(name: str) -> Callable[[], None]:
        def parse() -> None:
            called.append(name)
            sum(range(100_000))

        return parse

    both = Turns(rest=1e6, first_rest=0)
    for name in ("a", "b", "c"):
        both.ask(work(name), first=True)
    both.ask(work("body"))
    both.ask(work("another"))
    await until(lambda: len(called) == 4)
    await asyncio.sleep(0.2)
    assert called == ["a", "b", "c", "body"]


async def test_an_address_of_ipv4_is_the_same_over_a_socket_of_ipv6() -> None:
    for connection in connections(trusted_proxies="192.0.2.9"):
        for given, found in (("::ffff:192.0.2.9", "192.0.2.9"), ("2001:db8::1", "2001:db8::1")):
            connection.connection_made(Transport(peername=(given, 5000)))
            assert connection.client == (found, 5000)
            if isinstance(connection, WebSocketConnection):
                connection.limits.opened(found)
            connection.connection_lost(None)
            assert not connection.limits._by_address


class Blocked(ReferenceRecognizer):
    """A recogniser whose steps take until they are let go."""

    go = threading.Event()

    def step(self, samples: Tensor, state: State) -> tuple[Tensor, State]:
        self.go.wait()
        return super().step(samples, state)


def knocked(server: Running) -> socket.socket:
    """Return the socket of a new stream, after its handshake."""
    connection = socket.create_connection(("127.0.0.1", int(server.page.rpartition(":")[2])))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
    connection.sendall(HANDSHAKE.replace(b"GET /", b"GET /v1/stream").replace(b": x", b": [::1]"))
    assert b" 101 " in connection.recv(4096)
    return connection


@cache
def largest_message() -> int:
    """Return the shipped model's `max_message_bytes` on a CPU without bf16: there it is largest."""
    return roomy(read_settings(), load_recognizer(backend="fast-fp32")).max_message_bytes


def upload(server: Running, start: str) -> Callable[[], None]:
    """Send audio until nothing more is taken; return how to hang up."""
    connection = knocked(server)
    if start:
        connection.sendall(frame(0x1, start.encode()))
    size = largest_message() if start else largest_message() - 1000
    message = bytes([0x82, 0xFF]) + size.to_bytes(8) + MASK + bytes(size)
    connection.settimeout(0.3)
    try:
        while True:
            connection.sendall(message if start else message[:-1000])
            if not start:
                break
    except TimeoutError:
        pass
    return connection.close


@pytest.fixture(scope="module")
def blocked(online: ReferenceRecognizer) -> Iterator[Running]:
    """A server whose model stands still once it has started."""
    model = Blocked(online.recognizer)
    Blocked.go.set()
    with (
        pytest.MonkeyPatch.context() as patch,
        running(model, max_message_bytes=largest_message()) as server,
    ):
        patch.setattr(engine, "HANGING_SECONDS", 1e9)
        patch.setattr(engine, "STALLED_SECONDS", 1e9)
        Blocked.go.clear()
        yield server
        Blocked.go.set()


@pytest.mark.parametrize("start", [START, '{"type":"start","encoding":"pcm_f32le"}', ""])
def test_the_memory_of_a_connection_is_bounded(start: str, blocked: Running) -> None:
    upload(blocked, start)()  # what is made once is made
    clients: list[Callable[[], None]] = []
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        clients += [upload(blocked, start) for _ in range(4)]
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
        for hang_up in clients:
            hang_up()
    assert held / 4 < CONNECTION_BYTES


def test_a_page_of_a_rebound_name_sees_nothing(
    server: Running, caplog: pytest.LogCaptureFixture
) -> None:
    host, port = "127.0.0.1", int(server.page.rpartition(":")[2])
    name, reason = "cortado_connections_refused_total", "unknown_host"
    before = server.metric(name, reason=reason)
    for path in ("/", "/metrics", "/v1/info", "/health"):
        connection = http.client.HTTPConnection(host, port)
        connection.request("GET", path, headers={"Host": f"evil.example:{port}"})
        answer = connection.getresponse()
        told = json.loads(answer.read())
        assert (answer.status, told["error"]) == (421, "unknown_host")
        assert f"CORTADO_ALLOWED_HOSTS, got 'evil.example:{port}'" in told["message"]
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        connection.close()

    async def knock() -> int:
        with pytest.raises(websockets.InvalidStatus) as caught:
            await websockets.connect(
                f"ws://evil.example:{port}/v1/stream",
                sock=socket.create_connection((host, port)),
                origin=f"http://evil.example:{port}",  # type: ignore[arg-type]
            )
        assert caught.value.response.headers["X-Content-Type-Options"] == "nosniff"
        return caught.value.response.status_code

    assert asyncio.run(knock()) == 421
    assert server.metric(name, reason=reason) == before + 5
    lines = [one for one in caplog.records if one.message == "connection refused"]
    assert [vars(one)["address"] for one in lines] == ["127.0.0.1"] * 5


def test_many_connections_that_say_nothing_end(online: ReferenceRecognizer) -> None:
    with running(online, start_timeout_seconds=0.3) as server:
        port = int(server.page.rpartition(":")[2])
        slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
        for connection in slow:
            connection.sendall(b"GET / HTTP/1.1\r\n")
            connection.settimeout(30)
        assert all(connection.recv(1) == b"" for connection in slow)
        for connection in slow:
            connection.close()
        assert server.is_at_rest()
