"""Products of 8-bit integers: exact where nothing has to be rounded, else near what was meant."""

import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cortado.model.backends.cpu.convolution import PATCH, convolve_frames
from cortado.model.backends.cpu.layout import CHANNELS, SPARE, STREAMS
from cortado.model.compiled.integers import (
    MAX_INPUT,
    MAX_SIGNED,
    MAX_WEIGHT,
    QUAD,
    STEP,
    ZERO_POINT,
    QuantizedMatrix,
    affine,
    has_integer_products,
    quantized,
)
from cortado.model.compiled.product import narrow
from cortado.model.compiled.vectors import COLUMNS, LANES, cpu_features

Floats = NDArray[np.float32]
pytestmark = [
    pytest.mark.skipif(
        not has_integer_products(), reason="this CPU has neither AVX-512 VNNI nor AVX2"
    ),
]


@numba.njit
def through(m, a, k, c, rows, codes, scales):  # type: ignore[no-untyped-def]
    affine(m, a, k, k, c, rows, codes, scales)


def made(weight: Floats, bias: Floats, x: Floats, h: Floats, kind: type) -> Floats:
    """What the map makes of rows [x | h], given in bf16 or float32."""
    rows, k = np.concatenate([x, h], 1), x.shape[1] + h.shape[1]
    a = rows.ravel() if kind is np.float32 else narrow(rows.ravel())
    c = np.full(len(rows) * len(bias), np.nan, np.float32)
    codes, scales = np.zeros(rows.size + STEP, np.uint8), np.zeros(len(rows), np.float32)
    through(quantized(weight, x.shape[1], bias), a, k, c, len(rows), codes, scales)
    return c.reshape(len(rows), -1)


def integers_of(m: QuantizedMatrix) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The map's weights of x and of h, (K, N) each."""
    panels = m.weight.reshape(len(m.bias) // COLUMNS, -1, COLUMNS, QUAD).astype(np.int64)
    rows = panels.transpose(1, 3, 0, 2).reshape(-1, len(m.bias))
    start = -(-m.inputs // STEP) * STEP
    return rows[: m.inputs], rows[start : start + m.states]


def drawn(seed: int, rows: int, inputs: int, states: int, panels: int) -> tuple[Floats, ...]:
    """A weight, a bias, and rows that are the same in bf16."""
    random, n = np.random.default_rng(seed), COLUMNS * panels
    sizes = [(inputs + states, n), (n,), (rows, inputs), (rows, states)]
    weight, bias, x, h = (random.normal(size=size).astype(np.float32) for size in sizes)
    weight[:, 0] = 0  # a column of nothing has no largest weight
    x = np.maximum(x * random.exponential(3, (rows, 1)).astype(np.float32), 0)
    x[0] = 0  # nor has a row
    x, h = (((narrow(v).astype(np.uint32)) << 16).view(np.float32) for v in (x, np.tanh(h)))
    return weight, bias, x, h


@pytest.mark.parametrize("kind", [np.uint16, np.float32])
@given(
    rows=st.integers(1, 40),
    inputs=st.integers(0, 12),
    states=st.integers(0, 12),
    panels=st.integers(1, 3),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=25)
def test_what_is_whole_numbers_of_steps_is_exact(
    kind: type, rows: int, inputs: int, states: int, panels: int, seed: int
) -> None:
    assume(inputs + states)
    weight, bias, _, _ = drawn(seed, rows, QUAD * inputs, QUAD * states, panels)
    random = np.random.default_rng(seed)
    whole_x = random.integers(0, MAX_INPUT + 1, (rows, QUAD * inputs))
    whole_x[:, :1] = MAX_INPUT  # the largest of a row
    whole_h = random.integers(-MAX_SIGNED, MAX_SIGNED + 1, (rows, QUAD * states))
    step = 2.0 ** random.integers(-6, 6, (rows, 1))
    x, h = (v.astype(np.float32) for v in (whole_x * step, whole_h / MAX_SIGNED))
    m = quantized(weight, x.shape[1], bias)
    of_x, of_h = integers_of(m)
    expected = bias + step * (whole_x @ of_x) * m.x_scale + whole_h @ of_h * m.h_scale
    assert np.allclose(made(weight, bias, x, h, kind), expected, rtol=1e-4, atol=1e-4 * step)


@pytest.mark.parametrize("kind", [np.uint16, np.float32])
def test_it_is_near_what_was_meant(kind: type) -> None:
    weight, bias, x, h = drawn(1, 37, 640, 256, 4)
    exact = np.concatenate([x, h], 1).astype(np.float64) @ weight + bias
    error = made(weight, bias, x, h, kind) - exact
    assert np.sqrt((error**2).mean()) < 0.02 * exact.std()


@numba.njit
def patched(m, frames, size, apart, c, count, codes, scales):  # type: ignore[no-untyped-def]
    convolve_frames(m, frames, size, apart, c, count, codes, scales)


@pytest.mark.parametrize("count", range(1, STREAMS + 1))
@pytest.mark.parametrize(("heard", "kept", "apart"), [(3, 0, 2), (1, 1, 1), (0, 3, 1)])
def test_a_convolution_is_near_what_was_meant(
    heard: int, kept: int, apart: int, count: int
) -> None:
    random, places = np.random.default_rng(count), 22
    shape = (heard + kept, STREAMS, places, CHANNELS)
    loud = random.exponential(3, (1, STREAMS, 1, 1))
    frames = np.where(np.arange(heard + kept)[:, None, None, None] < heard, loud, 0.5)
    frames = np.abs(frames * random.uniform(0, 1, shape)).astype(np.float32)
    frames[heard:] *= random.choice([-1, 1], shape)[heard:]
    frames[:, :, [0, -1]] = 0  # edges
    weight = random.normal(0, 1, ((heard + kept) * PATCH, COLUMNS)).astype(np.float32)
    bias = random.normal(0, 1, COLUMNS).astype(np.float32)
    m = quantized(weight, heard * PATCH, bias)
    size, rows = places * CHANNELS, places // apart
    beyond = np.zeros(SPARE, np.float32)
    codes = np.full((heard + kept, STREAMS * size), ZERO_POINT, np.uint8)
    codes[:heard] = 0
    codes = np.concatenate([codes.ravel(), np.zeros(SPARE, np.uint8)])
    c = np.zeros(STREAMS * rows * COLUMNS, np.float32)
    given = np.concatenate([frames.ravel(), beyond])
    patched(m, given, size, apart, c, count, codes, np.zeros(STREAMS * rows, np.float32))
    found = c.reshape(STREAMS, rows, COLUMNS)
    for r in range(count):
        for row in range((places - 2) // apart):
            patch = frames[:, r, row * apart : row * apart + 3].astype(np.float64).ravel()
            exact = patch @ weight + bias
            scale = np.sqrt((patch**2).sum()) + 1
            assert np.abs(found[r, row] - exact).max() < 0.1 * scale


def test_a_row_has_the_same_bits_beside_any_others() -> None:
    weight, bias, x, h = drawn(2, 40, 64, 32, 2)
    together = made(weight, bias, x, h, np.uint16)
    for first, last in ((0, 1), (3, 8), (5, 15), (7, 40)):
        alone = made(weight, bias, x[first:last], h[first:last], np.uint16)
        assert np.array_equal(alone, together[first:last])


def test_a_row_is_not_felt_by_those_beside_it_whatever_it_holds() -> None:
    weight, bias, x, h = drawn(3, 12, 64, 32, 1)
    good = made(weight, bias, x, h, np.float32)
    x[5], h[5] = np.nan, np.inf
    found = made(weight, bias, x, h, np.float32)
    others = np.arange(12) != 5
    assert np.array_equal(found[others], good[others])


@given(seed=st.integers(0, 2**32 - 1), quads=st.integers(1, 9), sign=st.sampled_from([1, -1, 0]))
@settings(max_examples=50)
def test_the_largest_codes_and_weights_are_added_in_full(seed: int, quads: int, sign: int) -> None:
    random, k = np.random.default_rng(seed), QUAD * quads
    signs = sign or random.choice([-1, 1], (2 * k, COLUMNS))
    weight = (signs * random.exponential(1, (2 * k, COLUMNS)) ** 2).astype(np.float32)
    x, h = np.full((1, k), 3.0, np.float32), np.full((1, k), 1.0, np.float32)
    m = quantized(weight, k, np.zeros(COLUMNS, np.float32))
    of_x, of_h = integers_of(m)
    assert max(np.abs(of_x).max(), np.abs(of_h).max()) <= MAX_WEIGHT
    exact = 3 * of_x.sum(0) * m.x_scale + MAX_SIGNED * of_h.sum(0) * m.h_scale
    found = made(weight, np.zeros(COLUMNS, np.float32), x, h, np.float32)
    assert np.allclose(found, exact, rtol=1e-4, atol=1e-4 * np.abs(weight).sum(0).max())


@given(seed=st.integers(0, 2**32 - 1), inputs=st.integers(0, 9), states=st.integers(0, 9))
def test_a_weight_is_half_a_step_from_its_integer_at_most(
    seed: int, inputs: int, states: int
) -> None:
    assume(inputs + states)
    weight, bias, _, _ = drawn(seed, 1, QUAD * inputs, QUAD * states, 2)
    m = quantized(weight, QUAD * inputs, bias)
    steps = m.x_scale, m.h_scale * MAX_SIGNED
    parts = np.split(weight, [QUAD * inputs])
    for whole, step, part in zip(integers_of(m), steps, parts, strict=True):
        assert (np.abs(whole * step - part) <= 0.501 * step).all()


@pytest.mark.skipif(LANES != 16, reason="this CPU has no AVX-512: all of the above is AVX2's")
def test_avx2_multiplies_as_well(tmp_path: Path) -> None:
    features = ",".join(f"+{name}" for name in sorted(cpu_features()) if "avx512" not in name)
    older = {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": features}
    arguments = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    environment = os.environ | older | {"NUMBA_CACHE_DIR": str(tmp_path)}
    ran = subprocess.run(arguments, env=environment, capture_output=True, text=True)
    assert "1 skipped" in ran.stdout.splitlines()[-1], ran.stdout
    assert ran.returncode == 0
