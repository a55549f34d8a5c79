"""Whatever a stranger sends, a door answers in its own words and raises nothing."""

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cortado.server.doors.deepgram import parameters
from cortado.server.doors.deepgram.live import Live
from cortado.server.doors.openai.realtime import Realtime
from cortado.server.doors.vosk import Vosk
from cortado.server.protocol.dialect import Dialect
from cortado.tests.server.doors.conversation import Conversation

WORDS = st.sampled_from(
    [
        *("KeepAlive", "Finalize", "CloseStream", "config", "eof", "reset", "session.update"),
        *("input_audio_buffer.append", "input_audio_buffer.commit", "input_audio_buffer.clear"),
        *("type", "audio", "session", "input", "format", "turn_detection", "audio/pcmu", "rate"),
        *("sample_rate", "words", "phrase_list", "transcription", "server_vad", "event_id"),
        base64.b64encode(bytes(300)).decode(),
    ]
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=8,
)
KNOWN = st.sampled_from(
    [
        '{"type":"KeepAlive"}',
        '{"type":"Finalize"}',
        '{"type":"CloseStream"}',
        '{"eof":1}',
        '{"reset":1}',
        '{"config":{"sample_rate":16000}}',
        '{"type":"input_audio_buffer.commit"}',
        '{"type":"input_audio_buffer.clear"}',
        json.dumps({"type": "input_audio_buffer.append", "audio": "AAAAAAAA"}),
    ]
)
TYPED = st.builds(lambda kind, rest: rest | {"type": kind}, WORDS, st.dictionaries(WORDS, VALUES))
FRAMES = st.one_of(
    KNOWN,
    st.binary(max_size=400),
    st.text(max_size=30),
    TYPED.map(json.dumps),
    VALUES.map(json.dumps),
)
QUERIES = st.lists(
    st.tuples(
        st.sampled_from(["encoding", "sample_rate", "channels", "endpointing", "vad_events", "tag"])
        | st.text(max_size=9),
        st.sampled_from(["linear16", "mulaw", "opus", "8000", "true", "2"]) | st.text(max_size=9),
    ),
    max_size=6,
)


def dialect(name: str, query: list[tuple[str, str]]) -> Dialect | None:
    if name == "vosk":
        return Vosk()
    if name == "openai":
        return Realtime("sess_1", "small")
    try:
        return Live(parameters.read(query), datetime.now(UTC))
    except ValueError:
        return None


@pytest.mark.parametrize("name", ["deepgram", "openai", "vosk"])
@settings(deadline=None, max_examples=50)
@given(query=QUERIES, frames=st.lists(FRAMES, max_size=6))
def test_any_messages_in_any_order(
    name: str, query: list[tuple[str, str]], frames: list[str | bytes]
) -> None:
    found = dialect(name, query)
    if found is None:
        return
    talk = Conversation(found)
    for frame in frames:
        talk.say(frame)
        while talk.kinds.count("Flush") > talk.flushed:
            talk.flushed += 1
            talk.talk.send_flushed()
        if talk.kinds[-1:] == ["WhenProcessed"]:
            talk.talk.send_processed()
        if talk.talk.start and talk.talk.ending is None:
            talk.write("a b", 0.4)
            talk.end_utterance(0, 0.4, 0.5, 1.0)
    if talk.kinds[-1:] == ["End"]:
        talk.talk.send_final()
        talk.read()
    talk.talk.receive_eof()
    if talk.talk.error is not None:
        assert talk.talk.error.message.startswith(("expected ", "audio: expected "))
    found.close()
