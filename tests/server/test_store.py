"""No word is lost by a restart, nor at another server: streams lie in a store."""

import asyncio
import json
import os
import signal
import socket
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import numpy as np
import pytest
import redis
import websockets
from websockets.sync.client import connect

from cortado.model.audio.resampler import Resampler
from cortado.model.backends.reference import ReferenceRecognizer
from cortado.model.streaming.pool import Batch, Output
from cortado.model.streaming.snapshot import SnapshotError
from cortado.server import resumable as resumable_module
from cortado.server import store as store_module
from cortado.server.detached import VERSION, DetachedStream
from cortado.server.metrics import Metrics
from cortado.server.protocol.events import State
from cortado.server.protocol.messages import ErrorCode
from cortado.server.resampling import StreamResampler
from cortado.server.resumable import STORE_THREADS, ResumableStreams
from cortado.server.settings import read_settings
from cortado.server.signing import Signer
from cortado.server.store import (
    MARK,
    RedisStore,
    SqliteStore,
    Store,
    StoreError,
    name_of,
    open_store,
)
from cortado.server.streams import Streams
from cortado.tests import needs
from cortado.tests.model.untrained import noise
from cortado.tests.server.running import (
    END,
    KEPT,
    PATIENCE,
    Fragile,
    Heard,
    Running,
    Stuck,
    converse,
    listened,
    lose,
    pcm,
    resume,
    rounded,
    running,
    say,
    wait_for,
    written,
)

SPEECH = rounded(noise(5, 2.0))
SECRET = "a key that two servers share"


@pytest.fixture(scope="module")
def redis_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Redis of its own."""
    program = needs.program("redis-server")
    path = tmp_path_factory.mktemp("redis") / "socket"
    options = ["--port", "0", "--unixsocket", str(path), "--save", "", "--dir", str(path.parent)]
    with subprocess.Popen([program, *options], stdout=subprocess.DEVNULL) as server:
        try:
            address = f"unix://{path}"
            assert wait_for(lambda: answers(address))
            yield address
        finally:
            server.terminate()


def answers(address: str) -> bool:
    with redis.Redis.from_url(address) as client:
        try:
            return bool(client.ping())
        except redis.ConnectionError:
            return False


@pytest.fixture(params=["sqlite", "redis"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store."""
    if request.param == "sqlite":
        return str(tmp_path / "streams.sqlite")
    address: str = request.getfixturevalue("redis_address")
    with redis.Redis.from_url(address) as client:
        client.flushdb()
    return address


@pytest.fixture
def store(where: str) -> Iterator[Store]:
    found = open_store(where, 3)
    assert found is not None
    yield found
    found.close()


def test_what_is_put_is_held_for_a_while_only(store: Store) -> None:
    assert store.get("a") is None
    assert store.put("a", b"first", 30)
    assert store.get("a") == b"first"
    store.put("b", b"gone", 0.001)
    time.sleep(0.01)
    assert store.get("b") is None


def test_who_does_not_know_the_mark_replaces_nothing(store: Store) -> None:
    one, two, three = (bytes([n]) * MARK for n in range(3))
    assert store.put("a", one + b"first", 30)
    assert not store.put("a", two, 30)
    assert not store.put("a", two, 30, two)
    assert store.put("a", two + b"second", 30, one)
    assert not store.put("a", three, 30, one)
    assert store.get("a") == two + b"second"


def test_a_file_is_private_bounded_and_shared(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "streams.sqlite"
    one, two = SqliteStore(path, 2), SqliteStore(path, 2)
    for place, token in enumerate("abc"):
        one.put(token, bytes(MARK) + token.encode(), 30 + place)
    found = [two.get(token) for token in "abc"]
    assert found == [None, bytes(MARK) + b"b", bytes(MARK) + b"c"]
    assert path.stat().st_mode & 0o077 == 0
    one.put("secret token", b"", 30)
    assert b"secret token" not in path.read_bytes()
    one.close()
    two.close()


def test_a_file_that_is_removed_is_begun_anew_and_that_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "streams.sqlite"
    store = SqliteStore(path, 3)
    store.put("a", bytes(MARK), 30)
    other = SqliteStore(path, 3)
    for part in tmp_path.iterdir():
        part.unlink()
    assert store.put("b", bytes(MARK) + b"kept", 30)
    assert caplog.messages == ["file of streams is gone: a new one is begun"]
    assert other.get("b") == bytes(MARK) + b"kept"
    store.close()
    other.close()
    with closing(SqliteStore(path, 3)) as again:
        assert again.get("b") == bytes(MARK) + b"kept"


STREAM = create_autospec(DetachedStream, instance=True)
STREAM.to_bytes.return_value = b"a stream"


def resumable_in(path: Path, **settings: int) -> ResumableStreams:
    failures = Metrics().store_failures
    return ResumableStreams(
        read_settings(**settings), SqliteStore(path, 100), Signer(SECRET), failures
    )


def test_no_more_streams_than_allowed_are_kept_when_many_are_lost_at_once(tmp_path: Path) -> None:
    resumable = resumable_in(tmp_path / "streams.sqlite", keep_streams=2)

    async def lose_all() -> int:
        await asyncio.gather(*(resumable.put(str(number), STREAM) for number in range(8)))
        await resumable.close()
        return len(resumable)

    assert asyncio.run(lose_all()) == 2


def test_a_client_that_comes_again_before_it_was_let_in_has_its_stream() -> None:
    failures = Metrics().store_failures
    resumable = ResumableStreams(read_settings(), None, Signer(SECRET), failures)

    async def detach() -> None:
        await asyncio.sleep(0.01)  # while its audio is heard
        del resumable.attached["a"]
        await resumable.put("a", STREAM)

    async def claim() -> DetachedStream | None:
        async with resumable.claimed("a") as found:
            resumable.attached["a"] = detach
        return found

    async def come_twice() -> list[DetachedStream | None]:
        resumable.attached["a"] = detach
        return list(await asyncio.gather(claim(), claim()))

    assert asyncio.run(come_twice()) == [STREAM, STREAM]
    assert len(resumable) == 0


def test_a_store_that_hangs_holds_up_nothing_and_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(store_module, "BUSY_SECONDS", PATIENCE)
    monkeypatch.setattr(resumable_module, "STORE_SECONDS", 0.5)
    path = tmp_path / "streams.sqlite"
    resumable = resumable_in(path)

    async def lose_all() -> None:
        with sqlite3.connect(path, isolation_level=None) as another:
            another.execute("BEGIN EXCLUSIVE")
            losing = asyncio.gather(*(resumable.put(str(number), STREAM) for number in range(99)))
            await asyncio.sleep(0.1)
            await asyncio.to_thread(int)  # as an upload does
            assert len(resumable) == 0, "the store hangs still"
            await losing
            assert len(resumable) == 99
            await resumable.put("late", STREAM)
            await resumable.close()
        another.close()

    asyncio.run(asyncio.wait_for(lose_all(), PATIENCE / 2))
    assert resumable._store is not None
    resumable._store.close()  # which hung as well
    said = {one.message: vars(one) for one in caplog.records}
    assert said["store failed"]["reason"] == "expected an answer in 0.5 s, got none"
    assert said["streams not saved"]["streams"] == 100


def test_a_system_without_threads_is_an_error_of_the_store_until_it_has_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    resumable = resumable_in(tmp_path / "streams.sqlite")

    async def lose_all() -> list[bool]:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", none_left)
            for number in range(STORE_THREADS + 1):
                await resumable.put(str(number), STREAM)
        await resumable.put("late", STREAM)
        await resumable.close()
        return [held.is_stored for held in resumable._detached.values()]

    assert asyncio.run(lose_all()) == [False] * (STORE_THREADS + 1) + [True]


def test_a_fault_within_a_store_is_not_taken_for_a_lack_of_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulty(*_: object) -> bool:
        raise RuntimeError("dictionary changed size during iteration")

    resumable = resumable_in(tmp_path / "streams.sqlite")
    with monkeypatch.context() as patch:
        patch.setattr(SqliteStore, "put", faulty)
        with pytest.raises(RuntimeError, match="dictionary changed size"):
            asyncio.run(resumable.save("a", b"a stream"))
    asyncio.run(resumable.close())


def test_a_redis_that_hung_while_a_stream_was_saved_is_not_taken_for_another_server(
    redis_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "BUSY_SECONDS", 0.2)
    monkeypatch.setattr(resumable_module, "STORE_SECONDS", 0.5)
    store = RedisStore(redis_address)
    resumable = ResumableStreams(read_settings(), store, Signer(SECRET), Metrics().store_failures)
    process: int = store._redis.info()["process_id"]

    async def save() -> list[bool | None]:
        saved = [await resumable.save("hung", b"first")]
        os.kill(process, signal.SIGSTOP)
        try:
            saved += [await resumable.save("hung", b"late"), await resumable.save("hung", b"later")]
        finally:
            os.kill(process, signal.SIGCONT)
        saved.append(await resumable.save("hung", b"last"))
        await resumable.close()
        return saved

    assert asyncio.run(save()) == [True, None, None, True]


@pytest.mark.parametrize("version", [VERSION - 1, VERSION + 1])
def test_a_stream_that_another_version_stored_is_refused(version: int) -> None:
    with pytest.raises(SnapshotError, match=f"expected a stream of version 4, got {version}"):
        DetachedStream.from_bytes(bytes([version]) + bytes(100), 10)


def test_a_full_disk_is_an_error_of_the_store(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "streams.sqlite", 100)
    store._database.execute("PRAGMA max_page_count = 4")
    with pytest.raises(StoreError, match="full"):
        store.put("a", bytes(100_000), 30)
    store.close()
    with pytest.raises(StoreError):
        store.get("a")


@pytest.mark.parametrize("where", ["redis:/127.0.0.1:1/0", "postgres://a/b", "redis://a:port/0"])
def test_what_is_no_address_of_a_store_is_refused_with_those_that_are(where: str) -> None:
    with pytest.raises(ValueError, match=f"expected redis://HOST:PORT/0, .* got {where[:5]}"):
        open_store(where, 3)


@pytest.mark.parametrize(
    "where",
    [
        "redis://me:p@ssw@a:port/0",
        "reddis://:p@ssw@a/0",
        "redis://:p/ssw@a/0",
        "redis://[:ssw@a]/0",
        "memcached://a?password=ssw",
    ],
)
def test_no_password_of_a_store_is_told(where: str) -> None:
    with pytest.raises(ValueError, match="expected redis://HOST:PORT/0") as caught:
        open_store(where, 3)
    assert "ssw" not in str(caught.value)


def test_a_redis_that_is_away_is_an_error_of_the_store(caplog: pytest.LogCaptureFixture) -> None:
    store = open_store("redis://127.0.0.1:1", 3)
    assert caplog.messages == ["store not reached"]
    assert store is not None
    for call in (lambda: store.get("a"), lambda: store.put("a", b"", 30)):
        with pytest.raises(StoreError, match="refused"):
            call()
    store.close()


def test_a_store_that_was_asked_for_must_work_and_the_default_need_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="expected a file for streams, got "):
        open_store(str(tmp_path / "file" / "streams.sqlite"), 3)
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "file"))
    assert open_store(None, 3) is None
    assert open_store("memory", 3) is None
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    default = open_store(None, 3)
    assert isinstance(default, SqliteStore)
    default.close()


@pytest.mark.parametrize("rate", [8000, 16_000, 22_050, 44_100, 48_000, 11_027])
def test_a_resampler_goes_on_in_another_process(rate: int) -> None:
    samples = noise(1, 3.0 * rate / 16_000)
    plain = Resampler(rate)
    whole = np.concatenate([plain.push(samples), plain.finish()])
    one, made = StreamResampler(rate), []
    for part in np.array_split(samples, [rate // 7, rate, 2 * rate + 11]):
        made.append(one.push(part))
        one = StreamResampler(rate, *one.state())
    made.append(one.finish())
    found = np.concatenate(made)
    assert len(found) == len(whole)
    np.testing.assert_allclose(found, whole, atol=2e-3)


def serving(online: ReferenceRecognizer, **settings: Any) -> AbstractContextManager[Running]:
    """Run a server that keeps streams for as long as a busy machine may need."""
    return running(online, keep_seconds=600.0, headroom=1, **settings)


async def until_stopped(server: Running, start: str, audio: bytes, wait: int) -> tuple[Heard, str]:
    """Speak, stop the server once some messages have come, and return what was heard."""
    async with websockets.connect(server.url) as connection:
        await connection.send(start)
        await connection.send(audio)
        first = [json.loads(await connection.recv()) for _ in range(wait)]
        server.server.should_exit = True
        return await listened(connection, *first), first[0]["token"]


@pytest.mark.parametrize("rate", [16_000, 44_100])
def test_a_restart_loses_and_doubles_no_character(
    rate: int, online: ReferenceRecognizer, where: str
) -> None:
    samples = SPEECH if rate == 16_000 else rounded(Resampler(16_000, rate).push(SPEECH))
    start = json.dumps({"type": "start", "sample_rate": rate, "keep": True})
    with serving(online, store=where, state_key=SECRET) as server:
        half = pcm(samples[: len(samples) // 2])
        before, token = asyncio.run(until_stopped(server, start, half, 4))
    assert (before.error, before.close_code) == (ErrorCode.SHUTTING_DOWN, 1012)
    with serving(online, store=where, state_key=SECRET) as server:
        has = len(before.text)

        async def go_on() -> Heard:
            async with websockets.connect(server.url) as connection:
                await connection.send(resume(token=token, characters=has))
                ready = json.loads(await connection.recv())
                await connection.send(pcm(samples[ready["received"] :]))
                await connection.send(END)
                return await listened(connection, ready)

        after = asyncio.run(go_on())
        expected = say(server.url, start, pcm(samples), END)
    assert before.text + after.text == expected.text
    assert before.times + after.times == expected.times
    assert after.messages[-1] == expected.messages[-1]


def lost(server: Running, audio: bytes) -> str:
    """Speak, and lose the connection; return the token once the server has noticed."""
    token: str = asyncio.run(lose(server.url, KEPT, audio, 1))["token"]
    assert wait_for(lambda: len(server.service.streams.resumable) > 0)
    return token


def test_a_lost_stream_goes_on_at_another_server_and_at_one_only(
    online: ReferenceRecognizer, where: str
) -> None:
    shared = {"store": where, "state_key": SECRET}
    with serving(online, **shared) as one, serving(online, **shared) as two:
        token = lost(one, pcm(SPEECH))
        heard = say(two.url, resume(token=token), END)
        assert heard.close_code == 1000
        assert heard.text == say(two.url, '{"type":"start"}', pcm(SPEECH), END).text
        for server in (one, two):
            assert say(server.url, resume(token=token)).error == ErrorCode.UNKNOWN_STREAM


@pytest.mark.parametrize("write", [0, 1], ids=["taken", "put back"])
def test_a_stream_whose_resume_is_refused_can_be_resumed_meanwhile(
    write: int, online: ReferenceRecognizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes, begun, go = count(), threading.Event(), threading.Event()

    def held_up(*arguments: Any) -> bool:
        if next(writes) == write:
            begun.set()
            assert go.wait(PATIENCE)
        return put(*arguments)

    def resuming() -> int:
        states = [session._protocol.state for session in list(server.service._sessions)]
        return states.count(State.ACCEPTING)

    put = SqliteStore.put
    monkeypatch.setattr(resumable_module, "STORE_SECONDS", PATIENCE)
    with serving(online, store=str(tmp_path / "streams.sqlite"), save_seconds=0.1) as server:
        token = lost(server, pcm(SPEECH))
        monkeypatch.setattr(SqliteStore, "put", held_up)

        async def both() -> tuple[Heard, Heard]:
            wrong = asyncio.create_task(converse(server.url, resume(token=token, characters=999)))
            assert await asyncio.to_thread(begun.wait, PATIENCE)
            async with websockets.connect(server.url) as connection:
                await connection.send(resume(token=token))
                waits = await asyncio.to_thread(wait_for, lambda: resuming() == 2)
                go.set()
                assert waits
                await wrong
                first = [json.loads(await connection.recv())]
                while first[-1]["type"] != "acknowledged":  # it is this one's in the store, too
                    first.append(json.loads(await connection.recv()))
                await connection.send(END)
                return await wrong, await listened(connection, *first)

        wrong, right = asyncio.run(both())
        assert wrong.error == ErrorCode.INVALID_STATE
        assert (right.error, right.close_code) == (None, 1000)
        assert len(server.service.streams.resumable) == 0


def test_a_stream_that_comes_back_to_its_first_server_is_as_the_second_left_it(
    online: ReferenceRecognizer, where: str
) -> None:
    shared, half = {"store": where, "state_key": SECRET}, len(SPEECH) // 2
    with serving(online, **shared) as one, serving(online, **shared) as two:
        token = lost(one, pcm(SPEECH[:half]))
        asyncio.run(lose(two.url, resume(token=token), pcm(SPEECH[half:]), 1))
        assert wait_for(lambda: len(two.service.streams.resumable) > 0)
        heard = say(one.url, resume(token=token), END)
        assert heard.messages[0]["received"] == len(SPEECH)
        assert heard.text == say(one.url, '{"type":"start"}', pcm(SPEECH), END).text


def test_a_stream_that_a_stopping_server_did_not_finish_goes_on_from_where_it_was_saved(
    online: ReferenceRecognizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = {"store": str(tmp_path / "streams.sqlite"), "state_key": SECRET}
    steps = threading.Event()

    async def stopped(server: Running) -> Heard:
        async with websockets.connect(server.url) as connection:
            await connection.send(KEPT)
            first = [json.loads(await connection.recv())]
            while first[-1]["type"] != "acknowledged":
                first.append(json.loads(await connection.recv()))
            plain = server.service.engine._pool.step

            def step(batch: Batch) -> Output:
                assert steps.wait(PATIENCE)
                return plain(batch)

            monkeypatch.setattr(server.service.engine._pool, "step", step)
            await connection.send(pcm(SPEECH))
            await connection.send(END)
            [session] = server.service._sessions
            while session._protocol.state is not State.DRAINING:
                await asyncio.sleep(0.01)
            server.server.should_exit = True
            return await listened(connection, *first)

    with serving(online, save_seconds=0.1, **shared) as server:
        try:
            heard = asyncio.run(stopped(server))
        finally:
            steps.set()
    assert heard.error == ErrorCode.SHUTTING_DOWN
    with serving(online, **shared) as server:
        token, known = heard.messages[0]["token"], len(heard.text)
        again = say(server.url, resume(token=token, characters=known), pcm(SPEECH), END)
        assert again.messages[0]["received"] == 0
        assert heard.text + again.text == say(server.url, '{"type":"start"}', pcm(SPEECH), END).text


def test_a_store_that_fails_harms_no_stream(online: ReferenceRecognizer, tmp_path: Path) -> None:
    with serving(online, store=str(tmp_path / "streams.sqlite")) as server:
        store = server.service.streams.resumable._store
        assert isinstance(store, SqliteStore)
        store.close()
        assert say(server.url, resume(token=lost(server, pcm(SPEECH))), END).close_code == 1000
        counted = server.service.metrics.exposition().decode()
    assert "cortado_streams_resumed_total 1.0" in counted
    assert "cortado_store_failures_total 0.0" not in counted


def test_a_stream_whose_engine_failed_goes_on_from_where_it_was_stored(
    online: ReferenceRecognizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise RuntimeError("not in a step")

    store, half = str(tmp_path / "streams.sqlite"), len(SPEECH) // 2
    with serving(online, store=store, save_seconds=1.0) as server:
        with connect(server.url) as client:
            client.send(KEPT)
            token = json.loads(client.recv())["token"]
            client.send(pcm(SPEECH[:half]))
            while (message := json.loads(client.recv())).get("received") != half:
                assert message["type"] in ("chars", "endpoint", "acknowledged")
            monkeypatch.setattr(server.service.engine, "_gather", broken)
            client.send(pcm(SPEECH[half:]))  # wakes it: it takes its last step
            while message["type"] != "error":
                message = json.loads(client.recv())
        assert message["code"] == ErrorCode.INTERNAL_ERROR
    with serving(online, store=store) as server:
        heard = say(server.url, resume(token=token), pcm(SPEECH[half:]), END)
        assert heard.messages[0]["received"] == half
        assert heard.messages[-1]["text"] == written(online, SPEECH)[0]


def test_of_streams_whose_step_failed_only_the_broken_one_is_lost(
    online: ReferenceRecognizer, tmp_path: Path
) -> None:
    half = len(SPEECH) // 2
    store = str(tmp_path / "streams.sqlite")
    with (
        running(Fragile(online.recognizer), store=store, save_seconds=0.2) as server,
        connect(server.url) as loud,
        connect(server.url) as quiet,
    ):
        tokens = []
        for client in (loud, quiet):
            client.send(KEPT)
            tokens.append(json.loads(client.recv())["token"])
            client.send(pcm(SPEECH[:half]))
            while json.loads(client.recv()).get("received") != half:
                pass
        server.service.engine.capacity.window = 1.0  # one batch has both
        rest = pcm(SPEECH[half:]), pcm(np.ones(half, np.float32))
        for client, audio in zip((quiet, loud), rest, strict=True):
            client.send(audio)
        for client in (loud, quiet):
            while (message := json.loads(client.recv()))["type"] != "error":
                assert message["type"] in ("chars", "endpoint", "acknowledged")
            assert message["code"] == ErrorCode.INTERNAL_ERROR
        broken = say(server.url, resume(token=tokens[0]), rest[1])
        assert (broken.types[0], broken.error) == ("ready", ErrorCode.INTERNAL_ERROR)
        assert say(server.url, resume(token=tokens[0])).error == ErrorCode.UNKNOWN_STREAM
        with connect(server.url) as again:
            again.send(resume(token=tokens[1]))
            received = json.loads(again.recv())["received"]
            again.send(pcm(SPEECH[received:]))
            again.send(END)
            while (message := json.loads(again.recv()))["type"] != "final":
                pass
        assert message["text"] == written(online, SPEECH)[0]


def test_a_stream_that_cannot_be_detached_leaves_nothing_behind(
    online: ReferenceRecognizer, tmp_path: Path
) -> None:
    Stuck.go.clear()
    store = str(tmp_path / "streams.sqlite")
    with running(Stuck(online.recognizer), store=store, keep_seconds=0.3) as server:
        resumable = server.service.streams.resumable
        with connect(server.url) as client:
            client.send(KEPT)
            assert wait_for(lambda: bool(resumable._marks)), "it was saved"
            client.send(pcm(np.ones(2000, np.float32)))
            client.socket.shutdown(socket.SHUT_RDWR)
        assert wait_for(lambda: not resumable.attached)
        assert not resumable._marks
        Stuck.go.set()


@pytest.mark.parametrize(
    "change",
    ["UPDATE streams SET data = data || x'00'", "UPDATE streams SET name = ?"],
    ids=["forged", "another's"],
)
def test_what_somebody_else_put_into_a_store_is_not_read(
    change: str, online: ReferenceRecognizer, tmp_path: Path
) -> None:
    path = tmp_path / "streams.sqlite"
    with serving(online, store=str(path)) as server:
        token = lost(server, pcm(SPEECH))
        server.service.streams.resumable._forget(token)
        others = (name_of("mine"),) if "?" in change else ()
        with sqlite3.connect(path) as database:
            database.execute(change, others)
        database.close()
        token = "mine" if others else token
        assert say(server.url, resume(token=token)).error == ErrorCode.UNKNOWN_STREAM


def test_the_key_is_made_once_and_a_shared_store_needs_one_that_is_shared(
    online: ReferenceRecognizer, tmp_path: Path, redis_address: str
) -> None:
    where = str(tmp_path / "streams.sqlite")
    with serving(online, store=where) as one, serving(online, store=where) as two:
        assert one.service.streams.signer.key == two.service.streams.signer.key
        service = one.service
    assert os.stat(tmp_path / "state.key").st_mode & 0o077 == 0
    (tmp_path / "state.key").write_text("")  # as of a machine that lost its power
    with pytest.raises(ValueError, match=r"state.key: expected a key of 16 characters .*, got 0"):
        Streams(service.metrics, read_settings(store=where))
    (tmp_path / "state.key").chmod(0o644)
    with pytest.raises(ValueError, match=r"state.key: expected a key that its owner alone reads"):
        Streams(service.metrics, read_settings(store=where))
    settings = read_settings(store=redis_address)
    with pytest.raises(ValueError, match="expected a state_key"):
        Streams(service.metrics, settings)
    settings = read_settings(store=redis_address, state_key=SECRET)
    asyncio.run(Streams(service.metrics, settings).resumable.close())
