"""Text and times do not depend on how audio is cut, nor on who else is being heard."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cortado.model import checkpoint, checkpoint_reader
from cortado.model.audio.decode import decode
from cortado.model.backends.reference import (
    Character,
    OnlineRecognizer,
    transcribe,
    transcribe_many,
)
from cortado.model.layer import put, select
from cortado.model.streaming.transcribe import characters
from cortado.tests.model.untrained import noise, untrained

Samples = NDArray[np.float32]

SPEECH = Path(__file__).parents[3] / "shared/data/librispeech-mini"
MODELS = ["untrained"] + ["shipped"] * (checkpoint_reader.DEFAULT / checkpoint_reader.CARD).exists()
RECORDINGS = 8
LONGEST_PIECE = 48_000  # samples: 3 s
LATEST_START = 60  # steps

pytestmark = pytest.mark.shared
lasting = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
# Pieces of 1 sample to 3 s: every order of magnitude is as likely.
piece = st.floats(0, np.log(LONGEST_PIECE)).map(lambda power: round(np.exp(power)))
pieces = st.lists(piece, min_size=1, max_size=20)


@cache
def recogniser(name: str) -> OnlineRecognizer:
    return untrained() if name == "untrained" else OnlineRecognizer(checkpoint.load())


@cache
def recording(number: int) -> Samples:
    """The first seconds of a recording of real speech where there is one, else noise."""
    length = 12_000 + 2_345 * number
    files = sorted(SPEECH.glob("audio/*/*.opus"))
    return decode(files[number])[:length] if files else noise(number, length / 16_000)


@cache
def alone(name: str, number: int) -> list[Character]:
    return transcribe(recogniser(name), recording(number))


def cut(samples: Samples, sizes: Sequence[int]) -> list[Samples]:
    """Return the samples in pieces of `sizes`, again and again."""
    parts, start = [], 0
    for size in cycle(sizes):
        parts.append(samples[start : start + size])
        start += size
        if start >= len(samples):
            return parts
    raise AssertionError("sizes are positive")


class Visitor:
    """A stream that comes at a step of its own, with a recording in pieces of its own."""

    def __init__(self, online: OnlineRecognizer, number: int, start: int, sizes: list[int]) -> None:
        self.number, self.start = number, start
        self.waiting = cut(recording(number), sizes)
        self.stream = online.stream()
        self.heard: list[Character] = []

    def talk(self) -> None:
        """Push pieces up to a step's worth; a large one makes a backlog."""
        while self.waiting and not self.stream.ready:
            self.stream.push(self.waiting.pop(0))
        if not self.waiting:
            self.stream.end()


def random_visitor(online: OnlineRecognizer, random: np.random.Generator) -> Visitor:
    sizes = np.exp(random.uniform(np.log(64), np.log(LONGEST_PIECE), 10)).astype(int)
    number, start = random.integers(RECORDINGS), random.integers(LATEST_START)
    return Visitor(online, int(number), int(start), sizes.tolist())


def hear(online: OnlineRecognizer, visitors: list[Visitor]) -> None:
    """Step all visitors together, those that have come and have audio, until they are done."""
    state = online.initial_state(len(visitors))
    tick = 0
    while not all(one.stream.finished for one in visitors):
        for one in visitors:
            if one.start <= tick:
                one.talk()
        rows = [row for row, one in enumerate(visitors) if one.stream.ready]
        if rows:
            steps = [visitors[row].stream.next_step() for row in rows]
            samples = torch.from_numpy(np.stack([step for step in steps if step is not None]))
            symbols, part = online.step(samples, select(state, rows))
            state = put(state, rows, part)
            for row, written in zip(rows, symbols.tolist(), strict=True):
                visitors[row].heard += visitors[row].stream.emitted(written)
        tick += 1


def test_an_untrained_model_writes_different_text_for_different_audio() -> None:
    texts = {"".join(one.text for one in alone("untrained", k)) for k in range(RECORDINGS)}
    assert len(texts) == RECORDINGS
    assert min(map(len, texts)) > 10


@pytest.mark.parametrize("name", MODELS)
@given(number=st.integers(0, RECORDINGS - 1), sizes=pieces)
@example(number=1, sizes=[1])
@example(number=2, sizes=[639, 641])
@settings(lasting, max_examples=8)
def test_a_stream_in_pieces_is_the_whole_file(name: str, number: int, sizes: list[int]) -> None:
    steps = characters(recogniser(name), cut(recording(number), sizes))
    assert [one for step in steps for one in step] == alone(name, number)


@pytest.mark.parametrize("others", [1, 2, 30])
@pytest.mark.parametrize("name", MODELS)
@given(number=st.integers(0, RECORDINGS - 1), sizes=pieces, seed=st.integers(0, 2**32 - 1))
@settings(lasting, max_examples=4)
def test_a_stream_does_not_feel_its_neighbours(
    name: str, others: int, number: int, sizes: list[int], seed: int
) -> None:
    online, random = recogniser(name), np.random.default_rng(seed)
    subject = Visitor(online, number, LATEST_START // 2, sizes)
    visitors = [random_visitor(online, random) for _ in range(others)]
    visitors.insert(int(random.integers(others + 1)), subject)
    hear(online, visitors)
    for one in visitors:
        assert one.heard == alone(name, one.number)


def tensors(state: Iterable[Any]) -> Iterator[torch.Tensor]:
    for part in state:
        yield from [part] if isinstance(part, torch.Tensor) else tensors(part)


@pytest.mark.parametrize("streams", [2, 8, 9, 31])
def test_a_row_has_the_same_bits_in_a_batch_of_any_size(streams: int) -> None:
    online, samples = recogniser("untrained"), torch.from_numpy(recording(7).copy())
    lonely, crowded = online.initial_state(1), online.initial_state(streams)
    random = torch.Generator().manual_seed(streams)
    for step in samples.split(640)[:12]:
        crowd = torch.randn(streams, 640, generator=random)
        crowd[-1] = step
        _, lonely = online.step(step[None], lonely)
        _, crowded = online.step(crowd, crowded)
    for one, many in zip(tensors(lonely), tensors(crowded), strict=True):
        assert torch.equal(one[0], many[-1])


@pytest.mark.parametrize("streams", [3, 64])
@pytest.mark.parametrize("name", MODELS)
def test_evaluating_many_files_at_once_is_each_file_alone(name: str, streams: int) -> None:
    order = np.random.default_rng(streams).permutation(RECORDINGS + 2) % RECORDINGS
    found = dict(transcribe_many(recogniser(name), (recording(k) for k in order), streams))
    assert found == {index: alone(name, int(number)) for index, number in enumerate(order)}


@pytest.mark.parametrize("name", MODELS)
def test_times_rise_and_lie_within_the_audio(name: str) -> None:
    if name == "untrained" or SPEECH.exists():
        assert any(alone(name, number) for number in range(RECORDINGS))
    for number in range(RECORDINGS):
        times = [one.time for one in alone(name, number)]
        assert times == sorted(times)
        assert all(0 <= time <= len(recording(number)) / 16_000 + 0.4 for time in times)
