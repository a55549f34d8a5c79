"""The engine's thread, without a socket: who is stepped when, and who is told."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
import pytest

from cortado.model.arrays import Samples
from cortado.model.backends.reference import ReferenceRecognizer
from cortado.model.emission import Character
from cortado.model.features.framing import STEP_SECONDS
from cortado.model.streaming.pool import Pool
from cortado.model.streaming.recordings import transcribe
from cortado.model.streaming.snapshot import Snapshot
from cortado.model.streaming.update import FAILED, Update
from cortado.server.engine import Engine, EngineFull
from cortado.server.engine_stream import EngineStream
from cortado.server.metrics import Metrics
from cortado.server.protocol.messages import Start
from cortado.tests.model.untrained import noise
from cortado.tests.server.running import PATIENCE, Fragile, Stuck, wait_for

STEP = 640
SPEECH = noise(5, 1.2)


class Heard:
    """Keeps the updates of one stream."""

    def __init__(self) -> None:
        self.updates: list[Update] = []
        self.over = asyncio.Event()

    def __call__(self, update: Update) -> None:
        self.updates.append(update)
        if update.finished:
            self.over.set()

    async def characters(self) -> list[Character]:
        """Return what was written, when it is complete."""
        await asyncio.wait_for(self.over.wait(), PATIENCE)
        return [character for update in self.updates for character in update.characters]


@asynccontextmanager
async def running(
    online: ReferenceRecognizer, max_streams: int = 4, buffer_seconds: float = 10.0
) -> AsyncIterator[Engine]:
    engine = Engine(
        online,
        Metrics(),
        max_streams=max_streams,
        buffer_seconds=buffer_seconds,
        headroom=1,  # a busy machine carries few streams
    )
    engine.start()
    try:
        yield engine
    finally:
        engine.stop()
    assert not engine.alive


async def hear(engine: Engine, samples: Samples) -> list[Character]:
    heard = Heard()
    stream = engine.open(Start(), heard)
    await stream.push(samples)
    stream.end()
    characters = await heard.characters()
    stream.close()
    return characters


async def test_what_was_meant_for_the_last_owner_of_a_slot_is_dropped(
    online: ReferenceRecognizer,
) -> None:
    async with running(online, max_streams=1) as engine:
        last, next_ = Heard(), Heard()
        stream = engine.open(Start(), last)
        # No await between here and the next owner: what the thread gives must come too late.
        engine.push(stream, SPEECH)
        engine.end(stream, SPEECH[:0])
        stream.close()
        assert engine.active == 0
        owner = engine.open(Start(), next_)
        assert owner.row == stream.row
        await owner.push(SPEECH)
        owner.end()
        assert await next_.characters() == transcribe(online, SPEECH)
        assert last.updates == []
        stream.close()  # again, and late: it is not the owner's slot that is freed
        assert engine.active == 1
        owner.close()
        assert engine.active == 0


async def test_a_full_engine_spends_no_time_on_phrases(online: ReferenceRecognizer) -> None:
    async with running(online, max_streams=1) as engine:
        engine.open(Start(), Heard())
        with pytest.raises(EngineFull):  # and not what is wrong with them
            engine.open(Start(phrases=("ada",)), Heard())


def test_characters_are_made_on_the_event_loop_and_steps_are_not(
    online: ReferenceRecognizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: dict[str, set[threading.Thread]] = {"step": set(), "updates": set()}
    for name, seen in threads.items():
        plain = getattr(Pool, name)

        def watched(*arguments: object, plain: Any = plain, seen: Any = seen) -> object:
            seen.add(threading.current_thread())
            return plain(*arguments)

        monkeypatch.setattr(Pool, name, watched)

    async def scenario() -> None:
        async with running(online) as engine:
            threads["step"].clear()  # of the measurement before the start
            assert await hear(engine, SPEECH) == transcribe(online, SPEECH)

    asyncio.run(scenario())
    assert threads["updates"] == {threading.main_thread()}
    assert threads["step"] - threads["updates"]


async def test_a_stream_that_is_suspended_has_given_all_that_it_wrote(
    online: ReferenceRecognizer,
) -> None:
    async with running(online) as engine:
        first, second = Heard(), Heard()
        stream = engine.open(Start(), first)
        await stream.push(SPEECH[:10_000])
        stream.suspend()
        before = await first.characters()
        snapshot = first.updates[-1].snapshot
        assert snapshot is not None
        assert (snapshot.characters, snapshot.received) == (len(before), 10_000)
        assert first.updates[-1].position == snapshot.position == 15 * STEP / 16_000
        stream.close()
        other = engine.open(Start(), second, snapshot=Snapshot.from_bytes(snapshot.to_bytes()))
        await other.push(SPEECH[10_000:])
        other.end()
        assert before + await second.characters() == transcribe(online, SPEECH)


async def test_an_upload_does_not_hold_up_live_speech(online: ReferenceRecognizer) -> None:
    async with running(online, buffer_seconds=30.0) as engine:
        bulk, live = Heard(), Heard()
        uploading, speaking = engine.open(Start(), bulk), engine.open(Start(), live)
        engine.push(uploading, np.tile(SPEECH, 20))  # 600 steps
        while not bulk.updates:
            await asyncio.sleep(0)
        engine.push(speaking, SPEECH)
        engine.end(speaking, SPEECH[:0])
        before = bulk.updates[-1].position
        await live.characters()
        passed = (bulk.updates[-1].position - before) / STEP_SECONDS
        # As many steps as the other took, and those whose results were on their way.
        assert passed < len(SPEECH) / STEP + online.flush_steps + 60


async def test_a_full_buffer_makes_the_sender_wait(online: ReferenceRecognizer) -> None:
    async with running(online, buffer_seconds=1.0) as engine:
        most = 0

        def watch(update: Update) -> None:
            nonlocal most
            most = max(most, engine._pool.waiting(stream.row))

        stream: EngineStream = engine.open(Start(), watch)
        await asyncio.wait_for(stream.push(np.tile(SPEECH, 5)), PATIENCE)
        assert 0 < most <= 16_000


async def test_streams_that_come_and_go_do_not_feel_each_other(online: ReferenceRecognizer) -> None:
    async with running(online, max_streams=3) as engine:
        speech = [noise(seed, 0.4 + 0.2 * (seed % 4)) for seed in range(12)]
        free = asyncio.Semaphore(3)

        async def one(samples: Samples) -> list[Character]:
            async with free:
                return await hear(engine, samples)

        heard = await asyncio.gather(*map(one, speech))
        assert heard == [transcribe(online, samples) for samples in speech]
        assert engine.active == 0


async def test_a_stream_whose_step_failed_is_in_no_later_batch(
    online: ReferenceRecognizer, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(Fragile(online.recognizer)) as engine:
        loud, quiet = Heard(), Heard()
        failing, saved = engine.open(Start(), loud), list[Snapshot]()
        engine.push(failing, np.ones(50 * STEP, np.float32))
        # No await from here on: the event loop closes nothing.
        assert wait_for(lambda: "step failed" in caplog.messages)
        assert engine.push(failing, np.ones(50 * STEP, np.float32))
        engine.save(failing, lambda snapshot, _: saved.append(snapshot))
        engine.suspend(failing, SPEECH[:0])
        stream = engine.open(Start(), quiet)
        engine.push(stream, SPEECH)
        engine.end(stream, SPEECH[:0])
        assert wait_for(lambda: not len(engine._pool.ready()) and engine._asleep)
        assert await quiet.characters() == transcribe(online, SPEECH)
        assert (loud.updates, saved) == ([FAILED], [])
        failing.close()
        assert engine._failed == set()
        again = engine.open(Start(), Heard())
        assert again.row == failing.row
        assert engine._steps(again)


async def test_streams_whose_step_failed_go_on_apart_until_the_broken_one_is_known(
    online: ReferenceRecognizer,
) -> None:
    sounds = np.ones(STEP, np.float32), SPEECH[:STEP]
    async with running(Fragile(online.recognizer)) as engine:
        streams = [engine.open(Start(), Heard()) for _ in sounds]
        with engine._condition:  # one batch has both
            for stream, sound in zip(streams, sounds, strict=True):
                engine.push(stream, sound)
        assert wait_for(lambda: len(engine._failed) == 2)
        assert [stream.suspected for stream in streams] == [1, 1]
        loud, quiet = Heard(), Heard()
        broken, whole = engine.open(Start(), loud, apart=1), engine.open(Start(), quiet, apart=1)
        with engine._condition:
            engine.push(broken, sounds[0])
            engine.push(whole, SPEECH)
            engine.end(whole, SPEECH[:0])
        assert await quiet.characters() == transcribe(online, SPEECH)
        assert (loud.updates, broken.suspected) == ([FAILED], 0)


def test_a_step_that_does_not_end_holds_up_no_stop(online: ReferenceRecognizer) -> None:
    Stuck.go.clear()

    async def stop() -> None:
        async with running(Stuck(online.recognizer)) as engine:
            engine.push(engine.open(Start(), Heard()), np.ones(2000, np.float32))
            while not engine._busy_for():
                await asyncio.sleep(0.01)
            engine._thread.join(0.1)
        assert engine._thread.is_alive(), "it ends with the process"
        Stuck.go.set()
        engine._thread.join(PATIENCE)

    asyncio.run(stop())


async def test_a_stream_is_resumed_in_a_time_that_does_not_grow_with_it(
    online: ReferenceRecognizer,
) -> None:
    async with running(online) as engine:
        heard = Heard()
        stream = engine.open(Start(), heard)
        await stream.push(SPEECH)
        stream.suspend()
        await heard.characters()
        snapshot = heard.updates[-1].snapshot
        assert snapshot is not None
        steps, received = snapshot.steps + 10**9, snapshot.received + 10**9 * STEP  # a year
        began = perf_counter()
        engine.open(Start(), heard, snapshot=replace(snapshot, steps=steps, received=received))
        assert perf_counter() - began < 30
