"""The fast backend: as near to the reference as its numbers allow, and the same bits always."""

import math
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.dispatcher import Dispatcher
from numpy.typing import NDArray

from cortado.model.arrays import Samples
from cortado.model.attention import AttentionConfig
from cortado.model.backends.choice import choose, load_recognizer
from cortado.model.backends.cpu import kernel as kernel_module
from cortado.model.backends.cpu import recognizer as recognizer_module
from cortado.model.backends.cpu.gates import advance_cell
from cortado.model.backends.cpu.recognizer import FastRecognizer, available_products, unsupported
from cortado.model.backends.reference import ReferenceRecognizer
from cortado.model.compiled import product as products_module
from cortado.model.compiled.ahead import Signature
from cortado.model.compiled.jit import source_files
from cortado.model.compiled.product import (
    WEIGHT_TYPES,
    available,
    begin,
    end,
    narrow,
    packed,
    padded,
    product,
)
from cortado.model.compiled.tiles import INNER, ROWS
from cortado.model.compiled.vectors import COLUMNS, LANES
from cortado.model.config import DecoderConfig, EncoderConfig, FeatureConfig, RecognizerConfig
from cortado.model.recognizer import Recognizer
from cortado.model.search.settings import GREEDY
from cortado.model.streaming.pool import Pool
from cortado.model.streaming.recordings import transcribe
from cortado.model.vocabulary import Vocabulary
from cortado.tests.model.untrained import encoded, noise, untrained

STEP = 640
MODEL = Path(kernel_module.__file__).parents[2]
HERE = available_products()  # of a recogniser
MATRICES = available()  # of a matrix

lasting = settings(max_examples=8)


@cache
def reference() -> ReferenceRecognizer:
    return untrained(RecognizerConfig())


@cache
def fast(products: str) -> FastRecognizer:
    return FastRecognizer(reference().recognizer, products=products)


@cache
def recording(number: int) -> Samples:
    return noise(number, 0.8 + 0.15 * number)


def widened(values: NDArray[np.uint16]) -> Samples:
    return (values.astype(np.uint32) << 16).view(np.float32)


@numba.njit
def multiplied(a, start, row, segments, segment, k, b, bias, c, rows):  # type: ignore[no-untyped-def]
    begin(b)
    product(a, start, row, segments, segment, k, b, bias, c, rows)
    end(b)


def given_to(products: str, a: Samples) -> NDArray[np.generic]:
    """Return numbers as the product takes them, with what tiles read beyond them."""
    flat = np.pad(a.ravel(), (0, (ROWS + 1) * max(a.shape[-1], INNER)))
    return flat if products == "fp32" else narrow(flat)


@pytest.mark.parametrize("products", MATRICES)
@given(
    rows=st.integers(1, 70),
    panels=st.integers(1, 3),
    pairs=st.integers(1, 40),
    seed=st.integers(0, 2**32 - 1),
)
@lasting
def test_a_product_is_exact_but_for_rounding(
    products: str, rows: int, panels: int, pairs: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    k, n = 2 * pairs, COLUMNS * panels
    a, b, bias = (random.normal(size=s).astype(np.float32) for s in ((rows, k), (k, n), n))
    if products != "fp32":
        a, b = widened(narrow(a)), widened(narrow(b))
    c = np.zeros((rows + ROWS) * n, np.float32)
    weight = packed(b, WEIGHT_TYPES[products])
    multiplied(given_to(products, a), 0, k, 1, 0, k, weight, padded(bias), c, rows)
    exact = a.astype(np.float64) @ b.astype(np.float64) + bias
    assert np.allclose(c[: rows * n].reshape(rows, n), exact, atol=1e-4)


@pytest.mark.parametrize("products", MATRICES)
def test_overlapping_rows_in_segments_are_a_convolution(products: str) -> None:
    random = np.random.default_rng(0)
    frames, width, kernel = 3, 12, 4
    a = widened(narrow(random.normal(size=(frames, width)).astype(np.float32)))
    weight = widened(narrow(random.normal(size=(frames * kernel, 5)).astype(np.float32)))
    rows = (width - kernel) // 2 + 1
    c = np.zeros((rows + ROWS) * COLUMNS, np.float32)
    bias, b = padded(np.zeros(5)), packed(weight, WEIGHT_TYPES[products], frames)
    multiplied(given_to(products, a), 0, 2, frames, width, kernel, b, bias, c, rows)
    patches = np.stack([a[:, 2 * r : 2 * r + kernel].ravel() for r in range(rows)])
    found = c.reshape(-1, COLUMNS)[:rows, :5]
    assert np.allclose(found, patches @ weight, atol=1e-5)


@pytest.mark.parametrize("kind", [np.uint16, np.float32])
@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([0.1, 3.0, 100.0]))
@lasting
def test_gates_are_those_of_an_lstm(kind: type, seed: int, scale: float) -> None:
    @numba.njit
    def advanced(gates, cell, hidden):  # type: ignore[no-untyped-def]
        advance_cell(gates, 0, LANES, 2 * LANES, 3 * LANES, cell, 0, hidden, 0)

    random = np.random.default_rng(seed)
    gates = random.normal(0, scale, (4, LANES)).astype(np.float32)
    cell = random.normal(size=LANES).astype(np.float32)
    i, f, o = (1 / (1 + np.exp(-gates[k].astype(np.float64))) for k in (0, 1, 3))
    expected = f * cell + i * np.tanh(gates[2].astype(np.float64))
    hidden: NDArray[np.generic] = np.zeros(LANES, kind)
    advanced(gates.ravel(), cell, hidden)
    assert np.allclose(cell, expected, atol=1e-6)
    found = hidden if kind is np.float32 else widened(hidden.astype(np.uint16))
    error = 1e-6 if kind is np.float32 else 2**-8
    assert np.allclose(found, o * np.tanh(expected), atol=1e-6, rtol=error)


def test_what_may_reorder_sums_is_inlined() -> None:
    """Else the process that compiles has other last bits than those that load what it compiled."""
    files = source_files(Path(kernel_module.__file__)) & set(MODEL.rglob("*.py"))
    names = [".".join(path.relative_to(MODEL).with_suffix("").parts) for path in files]
    modules = [import_module(f"cortado.model.{name}") for name in names]
    compiled = {f for module in modules for f in vars(module).values() if isinstance(f, Dispatcher)}
    loose = [f for f in compiled if f.targetoptions.get("fastmath")]
    assert len(loose) >= 9
    assert all(f.targetoptions.get("forceinline") for f in loose)


def test_what_another_process_compiles_is_what_the_step_calls() -> None:
    """Else it would compile for nothing, and the first start would take twice as long."""
    recognizer = load_recognizer()
    transcribe(recognizer, np.zeros(STEP, np.float32))
    Pool(recognizer, 1).warm()

    def models(signature: Signature) -> list[numba.types.Type]:
        return [one for one in signature if isinstance(one, numba.types.NamedTuple)]

    run: Any = kernel_module.kernel(searched=True)
    for of_run in run.signatures:
        for function, signature in kernel_module.slow_parts(of_run):
            kept = [key[0] for key in function._cache._cache_file._load_index()]
            assert [one for one in kept if models(one) == models(signature)] == [signature]


def test_in_fp32_the_state_follows_the_references() -> None:
    samples = np.stack([noise(seed, 1.0).reshape(-1, STEP) for seed in range(3)])
    stepper, state = fast("fp32").stepper(3), reference().initial_state(3)
    for step in range(samples.shape[1]):
        here = np.ascontiguousarray(samples[:, step])
        expected, state = reference().step(torch.from_numpy(here), state)
        assert np.array_equal(stepper.step(here, np.arange(3)).symbols, expected[..., 0].numpy())
    newest = (stepper.state.frame_count[:, 0] - 1) % stepper.state.keys.shape[1]
    keys = stepper.state.keys[np.arange(3), newest]
    assert np.allclose(keys, state[-1].keys[:, -1].numpy(), atol=1e-3)
    assert np.allclose(stepper.state.decoder_cell[:, 0], state[-1].lstm.cell.numpy(), atol=1e-3)


def test_the_ctc_head_hears_the_blanks_that_the_reference_hears() -> None:
    online, samples, row = untrained(), noise(7, 3.0), np.zeros(1, np.int64)
    frames, ctc = encoded(online.recognizer, samples), online.recognizer.ctc
    along = torch.linalg.svd(frames - frames.mean(0)).Vh[0]  # what differs most between frames
    gain, blank = 4 / (frames @ along).std(), len(online.vocabulary)
    with torch.no_grad():
        ctc.weight.zero_()
        ctc.bias.zero_()
        ctc.weight[blank] = gain * along
        ctc.bias[blank] = math.log(blank) - gain * frames.mean(0) @ along
    logits = ctc(frames)[:, blank].numpy() - math.log(blank)  # of one half, above 0
    stepper = FastRecognizer(online.recognizer, products="fp32").stepper(1)
    heard = []
    for step in samples.reshape(-1, STEP)[: len(frames)]:
        stepper.step(step[None], row)
        heard.append(bool(stepper.blanks(row)[0]))
    sure = np.abs(logits) > 0.01
    assert sure.mean() > 0.9
    assert 10 < np.sum(heard) < len(heard) - 10
    assert np.array_equal(np.array(heard)[sure], logits[sure] > 0)


@pytest.mark.parametrize("products", [name for name in HERE if name != "fp32"])
def test_in_fewer_bits_the_encoder_follows_the_references(products: str) -> None:
    bound = 0.05 if products == "int8" else 0.02
    assert distance(fast(products), reference()) < bound


@pytest.mark.skipif("int8" not in HERE, reason="this CPU has no products of integers")
def test_integers_are_also_for_cpus_without_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products_module, "has_tiles", lambda: False)
    monkeypatch.setattr(products_module, "has_bf16_products", lambda: False)
    online = FastRecognizer(reference().recognizer)
    assert (online.name, online.narrow) == ("fast-int8", np.float32)
    assert distance(online, reference()) < 0.05


def distance(online: FastRecognizer, other: ReferenceRecognizer) -> float:
    """How far the encoder is from the reference's after 2 s, relative to it."""
    stepper, state = online.stepper(1), other.initial_state(1)
    for step in noise(1, 2.0).reshape(-1, 1, STEP):
        stepper.step(step, np.arange(1))
        _, state = other.step(torch.from_numpy(step), state)
    expected = state[1][-2].cell.numpy()
    error = stepper.state.lstm_cell[:, -1] - expected
    return float(np.sqrt((error**2).mean() / (expected**2).mean()))


def test_products_and_models_are_told_apart_in_a_snapshot() -> None:
    other = FastRecognizer(untrained(seed=4).recognizer, products=HERE[0])
    assert len({one.digest for one in (other, *map(fast, HERE))}) == len(HERE) + 1


def test_rows_that_are_not_there_are_refused() -> None:
    with pytest.raises(ValueError, match="rows"):
        fast("fp32").stepper(2).step(np.zeros((1, STEP), np.float32), np.array([2]))


def test_what_this_cpu_has_is_taken_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    recognizer = reference().recognizer
    monkeypatch.setattr(products_module, "has_tiles", lambda: False)
    monkeypatch.setattr(products_module, "has_bf16_products", lambda: False)
    monkeypatch.setattr(recognizer_module, "has_integer_products", lambda: False)
    assert choose(recognizer, "fast", GREEDY).name == "fast-fp32"
    with pytest.raises(ValueError, match=r"this CPU supports \(fp32\), got 'amx'"):
        choose(recognizer, "fast-amx")


@pytest.mark.parametrize(
    "config",
    [
        RecognizerConfig(encoder=EncoderConfig(channels=16)),
        RecognizerConfig(decoder=DecoderConfig(width=40)),
        RecognizerConfig(decoder=DecoderConfig(kind="luong")),
        RecognizerConfig(decoder=DecoderConfig(direct=True)),
        RecognizerConfig(decoder=DecoderConfig(layers=2)),
        RecognizerConfig(decoder=DecoderConfig(readout="maxout")),
        RecognizerConfig(decoder=DecoderConfig(attention=AttentionConfig(kind="monotonic"))),
        RecognizerConfig(decoder=DecoderConfig(attention=AttentionConfig(kind="matcha"))),
        RecognizerConfig(encoder=EncoderConfig(kind="lstm")),
        RecognizerConfig(features=FeatureConfig(mels=40)),
    ],
)
def test_a_model_that_it_does_not_know_is_left_to_the_reference(config: RecognizerConfig) -> None:
    recognizer = Recognizer(config).eval()
    assert unsupported(recognizer)
    assert choose(recognizer).name == "reference-beam128"
    with pytest.raises(ValueError, match="fast backend"):
        choose(recognizer, "fast")


def test_other_widths_and_symbols_are_known() -> None:
    config = RecognizerConfig(
        Vocabulary(phones=("aa", "sh", "iy", "h#")),
        encoder=EncoderConfig(width=64),
        decoder=DecoderConfig(width=128, embedding=16),
    )
    online = untrained(config)
    found = FastRecognizer(online.recognizer, products="fp32")
    assert transcribe(found, recording(2)) == transcribe(online, recording(2))
