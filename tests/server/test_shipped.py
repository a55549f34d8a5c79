"""The shipped model over the wire: what `cortado transcribe` writes, for thirty at once."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cortado.model import checkpoint
from cortado.model.audio.decode import decode
from cortado.model.backends.reference import ReferenceRecognizer
from cortado.model.checkpoint_reader import CARD, DEFAULT
from cortado.model.streaming.interface import Samples
from cortado.model.streaming.recordings import transcribe
from cortado.server.service import load
from cortado.server.settings import read_settings
from cortado.tests.server.running import (
    END,
    START,
    Running,
    converse,
    cut,
    pcm,
    rounded,
    running,
    spelt,
)

DEV = Path(__file__).parents[3] / "shared/data/librispeech-mini/dev.jsonl"
CLIENTS = 30
SECONDS = 2.0  # of each recording

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not DEV.exists(), reason="needs the recordings of ../shared"),
    pytest.mark.skipif(
        not (DEFAULT / CARD).exists(),
        reason="needs the shipped model",
    ),
]


@pytest.fixture(scope="module")
def shipped() -> ReferenceRecognizer:
    return ReferenceRecognizer(checkpoint.load(DEFAULT))


@pytest.fixture(scope="module")
def server(shipped: ReferenceRecognizer) -> Iterator[Running]:
    with running(shipped, max_streams=CLIENTS) as server:
        yield server


@pytest.fixture(scope="module")
def speech() -> list[Samples]:
    lines = DEV.read_text().splitlines()[:CLIENTS]
    paths = [DEV.parent / json.loads(line)["audio"] for line in lines]
    whole = [rounded(decode(path)) for path in paths]
    # From 1 s on, when the reader has begun; of different lengths, so that they end apart.
    return [
        samples[16_000 : 16_000 + int(SECONDS * 16_000) - 317 * k]
        for k, samples in enumerate(whole)
    ]


def test_thirty_readers_each_get_the_sentence_that_they_get_alone(
    server: Running, shipped: ReferenceRecognizer, speech: list[Samples]
) -> None:
    alone = [spelt(transcribe(shipped, samples)) for samples in speech]

    async def together() -> list[tuple[str, list[float]]]:
        clients = (
            converse(server.url, START, *cut(pcm(samples), seed, 32_000), END)
            for seed, samples in enumerate(speech)
        )
        return [(heard.text, heard.times) for heard in await asyncio.gather(*clients)]

    assert asyncio.run(together()) == alone
    assert sum(len(text) for text, _ in alone) > CLIENTS * SECONDS * 4  # it is speech
    assert server.is_at_rest()


def test_the_server_loads_the_shipped_model_by_default() -> None:
    info = load(read_settings()).info()
    assert info["model"] == DEFAULT.name
    assert info["card"]["sample_rate"] == 16_000
    assert info["card"]["lookahead_ms"] == info["lookahead_ms"] <= 110


def test_a_second_of_silence_writes_nothing(server: Running) -> None:
    silence = np.zeros(16_000, "<i2").tobytes()
    heard = asyncio.run(converse(server.url, START, silence, END))
    assert heard.text == ""
