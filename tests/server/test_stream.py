"""What a well-behaved client gets over a real websocket."""

import asyncio
import json
import logging

import numpy as np
import pytest

from cortado.model.audio.resampler import Resampler
from cortado.model.backends.reference import ReferenceRecognizer
from cortado.tests.model.untrained import noise
from cortado.tests.server.running import (
    END,
    START,
    Running,
    converse,
    cut,
    pcm,
    rounded,
    running,
    say,
    written,
)

SPEECH = noise(1, 2.5)
CLIENTS = 16


def test_a_client_gets_ready_then_characters_then_the_whole_text(
    at_rest: Running, online: ReferenceRecognizer
) -> None:
    text, times = written(online, rounded(SPEECH))
    heard = say(at_rest.url, START, pcm(SPEECH), END)
    assert heard.close_code == 1000
    assert heard.types[0] == "ready"
    assert heard.types[-1] == "final"
    assert set(heard.types[1:-1]) == {"chars"}
    final = heard.messages[-1]
    assert (final["text"], final["times"]) == (text, times) == (heard.text, heard.times)
    assert final["duration"] == 2.5
    assert len(set(text)) > 2
    positions = [message["position"] for message in heard.messages[1:-1]]
    assert positions == sorted(positions)
    assert positions[-1] <= 2.5, "they rest on audio that was sent"
    for message in heard.messages[1:-1]:
        assert message["times"] == sorted(message["times"])
        assert len(message["times"]) == len(message["text"])


def test_ready_says_how_the_server_listens(at_rest: Running, online: ReferenceRecognizer) -> None:
    start = '{"type":"start","sample_rate":48000,"encoding":"pcm_f32le"}'
    ready = say(at_rest.url, start, END).messages[0]
    assert len(ready.pop("session")) == 16
    assert ready == {
        "type": "ready",
        "model": "untrained",
        "sample_rate": 48_000,
        "encoding": "pcm_f32le",
        "step_ms": 40,
        "lookahead_ms": online.lookahead_ms,
        "received": 0,
    }


@pytest.mark.parametrize("rate", [8000, 44_100, 48_000])
def test_other_rates_are_resampled(
    rate: int, at_rest: Running, online: ReferenceRecognizer
) -> None:
    samples = rounded(Resampler(16_000, rate).push(np.tile(SPEECH, 2)))
    resampler = Resampler(rate)
    whole = np.concatenate([resampler.push(samples), resampler.finish()])
    start = json.dumps({"type": "start", "sample_rate": rate})
    heard = say(at_rest.url, start, *cut(pcm(samples), 7), END)
    assert (heard.text, heard.times) == written(online, whole)
    assert heard.messages[-1]["duration"] == pytest.approx(len(samples) / rate, abs=1e-3)


@pytest.mark.parametrize(
    "frames", [(END,), (b"", END), (b"\x01", END), (bytes(2), END), (bytes(300), END)]
)
def test_a_stream_of_next_to_nothing_ends_well(
    frames: tuple[str | bytes, ...], at_rest: Running
) -> None:
    heard = say(at_rest.url, START, *frames)
    assert heard.close_code == 1000
    assert heard.messages[-1]["duration"] < 0.01


def test_thirty_clients_each_get_what_they_get_alone(
    at_rest: Running, online: ReferenceRecognizer
) -> None:
    speech = [noise(seed, 1.0 + seed % 5 / 2) for seed in range(CLIENTS)]
    alone = [written(online, rounded(samples)) for samples in speech]

    async def together() -> list[tuple[str, list[float]]]:
        clients = (
            converse(at_rest.url, START, *cut(pcm(samples), seed, 32_000), END)
            for seed, samples in enumerate(speech)
        )
        return [(heard.text, heard.times) for heard in await asyncio.gather(*clients)]

    assert asyncio.run(together()) == alone
    assert len({text for text, _ in alone}) > CLIENTS // 2
    # They were heard together, not one after another.
    batches = "cortado_step_batch_streams_bucket"
    assert at_rest.metric(batches, le="+Inf") > at_rest.metric(batches, le="8.0")


def test_an_upload_faster_than_real_time_waits_and_loses_nothing(
    online: ReferenceRecognizer,
) -> None:
    samples = np.tile(SPEECH, 4)
    with running(online, buffer_seconds=1.0, max_message_bytes=2**20) as server:
        heard = say(server.url, START, pcm(samples), END)
        assert (heard.text, heard.times) == written(online, rounded(samples))
        assert server.is_at_rest()


def test_neither_text_nor_audio_is_logged(
    online: ReferenceRecognizer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "cortado.server")
    with running(online) as server:
        text = say(server.url, START, pcm(SPEECH), END).text
    facts = " ".join(str(vars(record)) for record in caplog.records)
    assert [
        record.message for record in caplog.records if record.name == "cortado.server.session"
    ] == [
        "stream started",
        "stream ended",
    ]
    assert text[:6] not in facts


@pytest.mark.parametrize(
    ("phrases", "message"),
    [
        (["ada"], "phrases: expected a search for phrases, got the greedy scan (--beam 1)"),
        (["a"] * 101, "expected phrases: at most 100 texts of at most 100 characters, got ['a', "),
        (["a" * 101], "expected phrases: at most 100 texts of at most 100 characters, got 'aaa"),
        ("ada", "expected phrases: at most 100 texts of at most 100 characters, got 'ada'"),
    ],
)
def test_phrases_that_cannot_be_expected_are_refused(
    at_rest: Running, phrases: object, message: str
) -> None:
    heard = say(at_rest.url, json.dumps({"type": "start", "phrases": phrases}))
    assert heard.messages[-1]["code"] == "invalid_message"
    assert message in heard.messages[-1]["message"]
