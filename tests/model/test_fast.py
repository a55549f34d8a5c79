"""The fast backend: as near to the reference as its numbers allow, and the same bits always."""

from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from model.backend import choose
from model.decoder import DecoderConfig
from model.encoder import EncoderConfig
from model.fast.layout import TILE
from model.fast.product import narrow, packed, padded, product
from model.fast.recognizer import FastRecognizer, unsupported
from model.fast.vectors import COLUMNS, NARROW, has_narrow_products
from model.online import Character, OnlineRecognizer, transcribe, transcribe_many
from model.recognizer import Recognizer, RecognizerConfig
from model.transcribe import characters
from tests.model.untrained import noise, untrained

Samples = NDArray[np.float32]
STEP = 640
KINDS = [False] + [True] * has_narrow_products()
RECORDINGS = 8

pytestmark = pytest.mark.timeout(900)  # the first use compiles

lasting = settings(deadline=None, max_examples=8)


@cache
def reference() -> OnlineRecognizer:
    return untrained()


@cache
def fast(narrow: bool) -> FastRecognizer:
    return FastRecognizer(reference().recognizer, narrow=narrow)


@cache
def recording(number: int) -> Samples:
    return noise(number, 0.8 + 0.15 * number)


@cache
def alone(narrow: bool, number: int) -> list[Character]:
    return transcribe(fast(narrow), recording(number))


def bits(online: FastRecognizer, samples: Samples, rows: list[int], streams: int) -> list[bytes]:
    """Step some rows of a table through (R, T, STEP) samples; return the bytes of their states."""
    table = online.table(streams, threads=2)
    for step in range(samples.shape[1]):
        table.step(samples[:, step], np.array(rows))
    return [table.suspend(row) for row in rows]


def widened(values: NDArray[np.uint16]) -> Samples:
    return (values.astype(np.uint32) << 16).view(np.float32)


@pytest.mark.parametrize("is_narrow", KINDS)
@given(
    rows=st.integers(1, 23),
    panels=st.integers(1, 3),
    pairs=st.integers(1, 40),
    seed=st.integers(0, 2**32 - 1),
)
@lasting
def test_a_product_is_exact_but_for_rounding(
    is_narrow: bool, rows: int, panels: int, pairs: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    k, n = 2 * pairs, COLUMNS * panels
    a, b, bias = (random.normal(size=s).astype(np.float32) for s in ((rows, k), (k, n), n))
    if is_narrow:
        a, b = widened(narrow(a)), widened(narrow(b))
    kind = NARROW if is_narrow else np.float32
    c = np.zeros(rows * n, np.float32)
    left = narrow(a).ravel() if is_narrow else a.ravel()
    product(left, 0, k, 1, 0, k, packed(b, kind), padded(bias), c, rows)
    exact = a.astype(np.float64) @ b.astype(np.float64) + bias
    assert np.allclose(c.reshape(rows, n), exact, atol=1e-4)


def test_overlapping_rows_in_segments_are_a_convolution() -> None:
    random = np.random.default_rng(0)
    frames, width, kernel = 3, 12, 4
    a = random.normal(size=(frames, width)).astype(np.float32)
    weight = random.normal(size=(frames * kernel, 5)).astype(np.float32)
    rows = (width - kernel) // 2 + 1
    c = np.zeros(rows * COLUMNS, np.float32)
    bias = padded(np.zeros(5))
    product(a.ravel(), 0, 2, frames, width, kernel, packed(weight, np.float32), bias, c, rows)
    patches = np.stack([a[:, 2 * r : 2 * r + kernel].ravel() for r in range(rows)])
    assert np.allclose(c.reshape(rows, -1)[:, :5], patches @ weight, atol=1e-5)


def test_in_fp32_the_state_follows_the_references() -> None:
    samples = np.stack([noise(seed, 1.0).reshape(-1, STEP) for seed in range(3)])
    table, state = fast(narrow=False).table(3), reference().initial_state(3)
    for step in range(samples.shape[1]):
        here = np.ascontiguousarray(samples[:, step])
        expected, state = reference().step(torch.from_numpy(here), state)
        assert np.array_equal(table.step(here, np.arange(3)), expected.numpy())
    assert np.allclose(table.state.values, state.decoder.values.numpy(), atol=1e-3)
    assert np.allclose(table.state.decoder_cell, state.decoder.lstm.cell.numpy(), atol=1e-3)


@pytest.mark.skipif(not has_narrow_products(), reason="expects a CPU with AVX-512 BF16")
def test_in_bf16_the_encoder_follows_the_references() -> None:
    samples = noise(1, 2.0).reshape(-1, 1, STEP)
    table, state = fast(narrow=True).table(1), reference().initial_state(1)
    for step in samples:
        table.step(step, np.arange(1))
        _, state = reference().step(torch.from_numpy(step), state)
    expected = state.encoder.layers[-1].cell.numpy()
    error = table.state.lstm_cell[:, -1] - expected
    assert np.sqrt((error**2).mean()) < 0.02 * np.sqrt((expected**2).mean())


@pytest.mark.parametrize("is_narrow", KINDS)
@pytest.mark.parametrize("streams", [1, 4, 7, TILE - 1, TILE + 1, 2 * TILE + 13])
def test_a_row_has_the_same_bits_in_a_batch_of_any_size(is_narrow: bool, streams: int) -> None:
    online = fast(is_narrow)
    random = np.random.default_rng(streams)
    crowd = random.normal(0, 0.05, (streams, 6, STEP)).astype(np.float32)
    subject = recording(3)[: 6 * STEP].reshape(6, STEP)
    row = int(random.integers(streams))
    crowd[row] = subject
    order = random.permutation(streams)
    together = bits(online, crowd[order], order.tolist(), streams)
    [by_itself] = bits(online, subject[None], [0], 1)
    assert together[int(np.flatnonzero(order == row)[0])] == by_itself


@pytest.mark.parametrize("is_narrow", KINDS)
@given(number=st.integers(0, RECORDINGS - 1), sizes=st.lists(st.integers(1, 9000), min_size=1))
@lasting
def test_a_stream_in_pieces_is_the_whole(is_narrow: bool, number: int, sizes: list[int]) -> None:
    samples, start = recording(number), 0
    pieces: list[Samples] = []
    while start < len(samples):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(samples[start : start + size])
        start += size
    steps = characters(fast(is_narrow), pieces)
    assert [one for step in steps for one in step] == alone(is_narrow, number)


@pytest.mark.parametrize("is_narrow", KINDS)
@pytest.mark.parametrize("streams", [3, 64])
def test_many_recordings_at_once_are_each_alone(is_narrow: bool, streams: int) -> None:
    order = np.random.default_rng(streams).permutation(RECORDINGS + 2) % RECORDINGS
    found = dict(transcribe_many(fast(is_narrow), (recording(k) for k in order), streams))
    assert found == {index: alone(is_narrow, int(k)) for index, k in enumerate(order)}


@pytest.mark.parametrize("is_narrow", KINDS)
def test_a_row_that_is_reset_has_heard_nothing(is_narrow: bool) -> None:
    online = fast(is_narrow)
    table = online.table(2)
    table.step(np.stack([recording(0)[:STEP], recording(1)[:STEP]]), np.arange(2))
    before = table.suspend(0)
    table.reset(np.array([1]))
    assert table.suspend(1) == online.table(1).suspend(0)
    assert table.suspend(0) == before


def test_a_state_that_is_resumed_elsewhere_goes_on_alike() -> None:
    online = fast(KINDS[-1])
    first, second = online.table(1), online.table(5)
    steps = recording(7)[: 12 * STEP].reshape(12, 1, STEP)
    for step in steps[:6]:
        first.step(step, np.arange(1))
    second.resume(3, first.suspend(0))
    for step in steps[6:]:
        written = second.step(step, np.array([3]))
        assert np.array_equal(first.step(step, np.arange(1)), written)
    assert first.suspend(0) == second.suspend(3)


@pytest.mark.parametrize("spoilt", [b"", b"nonsense", None])
def test_what_is_no_state_is_refused(spoilt: bytes | None) -> None:
    table = fast(KINDS[-1]).table(1)
    good = table.suspend(0)
    bad = good[:-1] + bytes([good[-1] ^ 1]) if spoilt is None else spoilt
    with pytest.raises(ValueError, match=r"^expected "):
        table.resume(0, bad)


def test_the_state_of_another_model_is_refused() -> None:
    other = FastRecognizer(untrained(seed=4).recognizer, narrow=False)
    with pytest.raises(ValueError, match="another model"):
        fast(narrow=False).table(1).resume(0, other.table(1).suspend(0))


@pytest.mark.parametrize(
    "config",
    [
        RecognizerConfig(encoder=EncoderConfig(channels=16)),
        RecognizerConfig(decoder=DecoderConfig(width=40)),
        RecognizerConfig(decoder=DecoderConfig(kind="luong")),
    ],
)
def test_a_model_that_it_does_not_know_is_left_to_the_reference(config: RecognizerConfig) -> None:
    recognizer = Recognizer(config).eval()
    assert unsupported(recognizer)
    assert choose(recognizer).name == "reference"
    with pytest.raises(ValueError, match="fast backend"):
        choose(recognizer, "fast")


def test_other_widths_are_known() -> None:
    config = RecognizerConfig(
        encoder=EncoderConfig(width=64),
        decoder=DecoderConfig(width=128, embedding=16),
    )
    online = untrained(config)
    found = FastRecognizer(online.recognizer, narrow=False)
    assert transcribe(found, recording(2)) == transcribe(online, recording(2))


def test_wrong_samples_and_rows_are_refused() -> None:
    table = fast(narrow=False).table(2)
    with pytest.raises(ValueError, match="samples"):
        table.step(np.zeros((1, 639), np.float32), np.arange(1))
    with pytest.raises(ValueError, match="rows"):
        table.step(np.zeros((1, STEP), np.float32), np.array([2]))
