"""The bookkeeping of a stream, and the states of many."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cortado.model.backends.reference import FLUSH_STEPS, OnlineRecognizer, Stream, transcribe
from cortado.model.config import (
    MAX_SYMBOLS_PER_STEP,
    DecoderConfig,
    EncoderConfig,
    RecognizerConfig,
)
from cortado.model.features.framing import SAMPLES_PER_STEP
from cortado.model.layer import put, select
from cortado.model.recognizer import Recognizer
from cortado.model.vocabulary import Vocabulary

DELAY = 2


def stream() -> Stream:
    return Stream(Vocabulary(), DELAY)


def taken(one: Stream) -> list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    steps = []
    while (step := one.next_step()) is not None:
        steps.append(step)
    return steps


@given(sizes=st.lists(st.integers(0, 2000), max_size=12))
def test_pieces_of_any_size_become_steps_of_one_size(sizes: list[int]) -> None:
    whole = np.arange(sum(sizes), dtype=np.float32)
    one, steps, start = stream(), [], 0
    for size in sizes:
        one.push(whole[start : start + size])
        start += size
        steps += taken(one)
        assert one.received == start
        assert one.buffered == start % SAMPLES_PER_STEP
        assert not one.ready
    one.end()
    steps += taken(one)
    count = -(-len(whole) // SAMPLES_PER_STEP) + FLUSH_STEPS
    assert [len(step) for step in steps] == [SAMPLES_PER_STEP] * count
    heard = np.concatenate(steps)
    np.testing.assert_array_equal(heard[: len(whole)], whole)
    assert not heard[len(whole) :].any()
    assert one.steps_taken == count


def test_a_stream_is_ready_when_a_step_is_there() -> None:
    one = stream()
    assert not one.ready
    one.push(np.ones(SAMPLES_PER_STEP - 1, np.float32))
    assert not one.ready
    assert one.next_step() is None
    one.push(np.ones(1, np.float32))
    assert one.ready


def test_a_stream_is_finished_when_the_last_symbols_are_back() -> None:
    one = stream()
    one.push(np.ones(10, np.float32))
    one.end()
    steps = taken(one)
    assert len(steps) == 1 + FLUSH_STEPS
    for _ in steps:
        assert not one.finished
        one.emitted([-1, -1])
    assert one.finished
    assert one.next_step() is None


def test_an_empty_stream_is_flushed_all_the_same() -> None:
    one = stream()
    one.end()
    one.end()  # twice is once
    assert len(taken(one)) == FLUSH_STEPS


def test_audio_after_the_end_is_refused() -> None:
    one = stream()
    one.end()
    with pytest.raises(ValueError, match=r"expected no audio after the end, got 3 samples"):
        one.push(np.zeros(3, np.float32))


@pytest.mark.parametrize("samples", [np.zeros(3), np.zeros((1, 3), np.float32), np.zeros(3, "i2")])
def test_audio_of_another_kind_is_refused(samples: np.ndarray[tuple[int, ...], np.dtype]) -> None:
    with pytest.raises(ValueError, match=r"expected \(N,\) float32 samples, got \("):
        stream().push(samples)


def test_the_position_is_what_the_characters_rest_on() -> None:
    one = stream()
    one.push(np.zeros(1000, np.float32))  # 62.5 ms: a step and a part
    assert one.position == 0
    one.next_step()
    one.emitted([])
    assert one.position == 0.04
    one.end()
    for _ in taken(one):
        one.emitted([])
    assert one.position == 0.0625  # no further than the audio


def test_characters_carry_the_end_of_the_frame_where_the_attention_stopped() -> None:
    one = stream()
    written = [one.emitted(symbols) for symbols in ([1, 2], [-1, -1], [3, -1], [0, 5])]
    found = [(character.text, character.time) for step in written for character in step]
    assert found == [("'", 0.0), ("a", 0.0), ("b", 0.04), (" ", 0.08), ("d", 0.08)]


@given(st.lists(st.lists(st.integers(-1, 27), min_size=2, max_size=2), max_size=40))
def test_times_rise_and_lie_on_the_grid_of_steps(steps: list[list[int]]) -> None:
    one = stream()
    characters = [character for symbols in steps for character in one.emitted(symbols)]
    assert len(characters) == sum(symbol >= 0 for symbols in steps for symbol in symbols)
    times = [character.time for character in characters]
    assert times == sorted(times)
    assert all(time == round(round(time / 0.04) * 0.04, 3) for time in times)


@pytest.fixture(scope="module")
def tiny() -> OnlineRecognizer:
    torch.manual_seed(0)
    encoder = EncoderConfig(channels=2, width=6, layers=1)
    config = RecognizerConfig(Vocabulary(), encoder, DecoderConfig(6, 4))
    return OnlineRecognizer(Recognizer(config))


def test_a_recogniser_in_serving_is_frozen(tiny: OnlineRecognizer) -> None:
    assert not tiny.recognizer.training
    assert not any(p.requires_grad for p in tiny.recognizer.parameters())
    assert tiny.lookahead_ms == 110
    assert tiny.flush_steps == FLUSH_STEPS


@pytest.mark.parametrize("shape", [(2, 639), (1, 640), (640,)])
def test_samples_of_another_shape_are_refused(
    tiny: OnlineRecognizer, shape: tuple[int, ...]
) -> None:
    with pytest.raises(ValueError, match=r"expected samples \(2, 640\), got \("):
        tiny.step(torch.zeros(shape), tiny.initial_state(2))


@pytest.mark.parametrize("streams", [1, 3, 8, 9])
def test_a_step_gives_a_row_of_symbols_to_each_stream(tiny: OnlineRecognizer, streams: int) -> None:
    symbols, state = tiny.step(torch.zeros(streams, 640), tiny.initial_state(streams))
    assert symbols.shape == (streams, MAX_SYMBOLS_PER_STEP)
    assert symbols.dtype == torch.int64
    assert state.decoder.symbol.shape == (streams,)
    assert [type(part) for part in state] == [type(part) for part in tiny.initial_state(1)]


def test_rows_of_a_state_are_selected_and_put_back(tiny: OnlineRecognizer) -> None:
    state = tiny.initial_state(5)
    _, heard = tiny.step(torch.randn(5, 640), state)
    part = select(heard, [3, 1])
    merged = put(state, [0, 4], part)
    assert torch.equal(merged.features.samples[0], heard.features.samples[3])
    assert torch.equal(merged.encoder.layers[0].cell[4], heard.encoder.layers[0].cell[1])
    assert torch.equal(merged.features.samples[1:4], state.features.samples[1:4])
    assert not state.features.samples.any()  # a state is a value


def test_no_audio_is_transcribed_in_the_flush_alone(tiny: OnlineRecognizer) -> None:
    assert len(transcribe(tiny, np.zeros(0, np.float32))) <= FLUSH_STEPS * MAX_SYMBOLS_PER_STEP
