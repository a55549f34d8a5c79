"""What a batch of steps gave, made into updates of its streams."""

import asyncio
import threading

import numpy as np

from cortado.model.backends.reference import OnlineRecognizer, transcribe
from cortado.model.streaming.listener import Listener
from cortado.model.streaming.stream import Character
from cortado.model.streaming.update import Update
from cortado.model.streaming.utterances import Endpoint
from cortado.model.vocabulary import Vocabulary
from cortado.server.engine import Engine
from cortado.server.live_stream import EngineStream
from cortado.server.metrics import Metrics
from cortado.server.telling import Leaving, Written
from cortado.tests.model.untrained import noise
from cortado.tests.server.running import PATIENCE

VOCABULARY = Vocabulary()
A, B = (VOCABULARY.names.index(letter) for letter in "ab")


def engine(online: OnlineRecognizer) -> Engine:
    return Engine(online, Metrics(), max_streams=2, buffer_seconds=1.0, headroom=1.0)


def written(
    streams: list[EngineStream], symbols: list[list[int]], ended: list[bool], steps: int
) -> Written:
    count = len(streams)
    return Written(
        streams,
        np.array(symbols, np.int32),
        np.full(count, steps),
        np.full(count, steps * 0.04),
        np.array(ended),
        np.zeros(count, np.bool_),
    )


def test_each_stream_goes_on_with_its_own_utterance(online: OnlineRecognizer) -> None:
    async def scenario() -> None:
        owner = engine(online)
        streams = [owner.open(16_000, lambda _: None) for _ in range(2)]
        first = written(streams, [[A, B], [B, -1]], [True, False], steps=13)
        second = written(streams, [[B, -1], [A, -1]], [False, False], steps=14)
        one, two = (dict(each.updates(VOCABULARY, 3)) for each in (first, second))
        ab = [Character("a", 0.4), Character("b", 0.4)]
        assert one[streams[0]] == Update(ab, 0.52, False, endpoint=Endpoint(0, 0.4, 0.4))
        assert one[streams[1]] == Update([Character("b", 0.4)], 0.52, False)
        space = Character(" ", 0.44)  # between two utterances, which the decoder does not write
        assert two[streams[0]].characters == [space, Character("b", 0.44)]
        assert two[streams[1]].characters == [Character("a", 0.44)]

    asyncio.run(scenario())


def test_a_stream_that_leaves_has_told_all_that_it_wrote(online: OnlineRecognizer) -> None:
    async def scenario() -> None:
        stream = engine(online).open(16_000, lambda _: None)
        leaving = Leaving(
            stream,
            ("reference", ""),
            [640, 1, 1, None],
            noise(0, 0.01),
            Listener(online, 1).suspend(0),
        )
        list(written([stream], [[A, B]], [False], steps=1).updates(VOCABULARY, 0))
        update = leaving.update()
        assert update.snapshot is not None
        assert update.snapshot.characters == 2
        assert (update.finished, update.position) == (True, 0.04)

    asyncio.run(scenario())


def test_characters_are_made_and_told_on_the_event_loop(online: OnlineRecognizer) -> None:
    async def scenario() -> None:
        owner, over = engine(online), asyncio.Event()
        told: list[Character] = []
        threads = set()

        def listen(update: Update) -> None:
            threads.add(threading.current_thread())
            told.extend(update.characters)
            if update.finished:
                over.set()

        owner.start()
        try:
            stream = owner.open(16_000, listen)
            hear = stream.utterances.hear
            made = set()

            def watched(*arguments: object) -> object:
                made.add(threading.current_thread())
                return hear(*arguments)  # type: ignore[arg-type]

            stream.utterances.hear = watched  # type: ignore[assignment,method-assign]
            samples = noise(5, 1.2)
            await stream.push(samples)
            stream.end()
            await asyncio.wait_for(over.wait(), PATIENCE)
            stream.close()
            assert told == transcribe(online, samples)
            assert made == threads == {threading.main_thread()}
        finally:
            owner.stop()

    asyncio.run(scenario())
