"""Messages of real clients, mutated: a stream goes on or ends with an error; nothing is raised."""

import asyncio
from datetime import UTC, datetime
from random import Random

import pytest

from cortado.server.doors.deepgram import parameters
from cortado.server.doors.deepgram.live import Live
from cortado.server.doors.openai.configuration import Configuration
from cortado.server.doors.openai.realtime import Realtime
from cortado.server.doors.own import Own
from cortado.server.doors.vosk import Vosk
from cortado.server.protocol.dialect import Dialect
from cortado.server.protocol.errors import REASONS
from cortado.server.protocol.events import State
from cortado.server.protocol.messages import ErrorCode
from cortado.tests.model.untrained import noise
from cortado.tests.server.doors.conversation import Conversation
from cortado.tests.server.mutations import PER_CONVERSATION, QUERIES, SAID, beside, mutated
from cortado.tests.server.running import Running

SPEECH = noise(5, 2.0)
COUNT = 500  # messages in each protocol; docs/threats.md tells of 100,000


def dialect(name: str, random: Random) -> Dialect:
    if name == "deepgram":
        return Live(parameters.read(random.choice(QUERIES), live=True), datetime.now(UTC))
    if name == "openai":
        return Realtime("sess_1", Configuration("sess_1", "small"), 100)
    return Vosk() if name == "vosk" else Own()


def conversation(name: str, random: Random) -> int:
    """Hold a conversation; return how many messages were read in it."""
    door = dialect(name, random)
    talk, count = Conversation(door, max_message_bytes=2**18), 0
    while talk.talk.ending is None and count < PER_CONVERSATION:
        talk.say(mutated(random, random.choice(SAID[name])))
        count += 1
        for _ in range(talk.kinds.count("Flush") - talk.flushed):
            talk.flushed += 1
            talk.talk.send_flushed()
        if talk.talk.start and talk.talk.ending is None and talk.talk.state is State.STREAMING:
            talk.write("a b ", 0.4 * count)
            talk.end_utterance(count, 0.4 * count, 0.4 * count, 0.4 * count + 1)
    if talk.talk.error is not None:
        assert "expected " in talk.talk.error.message
    door.close()
    return count


@pytest.mark.parametrize("name", SAID)
def test_mutated_messages_of_real_clients(name: str) -> None:
    random, count = Random(name), 0
    while count < COUNT:
        count += conversation(name, random)


@pytest.mark.parametrize("name", SAID)
def test_mutated_messages_do_not_reach_other_streams(name: str, at_rest: Running) -> None:
    answers = asyncio.run(beside(at_rest.page, name, 100, SPEECH))
    assert answers["honest streams"] > 0
    assert answers[f"close {REASONS[ErrorCode.INTERNAL_ERROR].close}"] == 0
