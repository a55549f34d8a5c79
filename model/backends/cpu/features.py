"""Features of four streams at a time, compiled: sixteen windows are transformed side by side."""

import numpy as np

from cortado.model.arrays import Array
from cortado.model.backends.cpu.layout import (
    FIRST,
    PAST,
    STREAMS,
    FeatureWeights,
    Scratch,
    State,
)
from cortado.model.compiled.functions import FAST, log
from cortado.model.compiled.jit import uncounted
from cortado.model.compiled.product import copied, put
from cortado.model.compiled.running_mean import follow
from cortado.model.compiled.vectors import FRAMES, butterfly, product_tile
from cortado.model.features.filterbank import delta_taps, mel_bank, window
from cortado.model.features.framing import (
    FFT,
    FRAMES_PER_STEP,
    HOP,
    MELS,
    OVERLAP,
    PLANES,
    POWER_FLOOR,
    SAMPLES_PER_STEP,
    WINDOW,
)

HALF = FFT // 2  # points of a complex transform that holds a real one

_PLANES = PLANES + 1
_filter = product_tile(1, 1, FRAMES)
_HALF = np.float32(0.5)
_ZERO = np.float32(0)


def weights(mean: Array, deviation: Array) -> FeatureWeights:
    """Return the constants of features whose frames have such statistics, (F,) each."""
    bank = mel_bank(MELS)  # (FFT / 2 + 1, F)
    bins = [np.flatnonzero(bank[:, m]) for m in range(MELS)]
    spans = [(int(b[0]), int(b[-1]) - int(b[0]) + 1) if len(b) else (0, 1) for b in bins]
    filters = [bank[first : first + count, m] for m, (first, count) in enumerate(spans)]
    counts = np.array([count for _, count in spans], np.int64)
    angles = 2 * np.pi * np.arange(HALF + 1) / FFT
    return FeatureWeights(
        window=window(),
        factors=_factors(),
        order=_order(),
        twiddles=np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32),
        bank=np.concatenate(filters).astype(np.float32),
        first=np.array([first for first, _ in spans], np.int64),
        bins=counts,
        offset=np.cumsum(counts) - counts,
        floor=np.full(FRAMES, POWER_FLOOR, np.float32),
        mean=mean.astype(np.float32),
        deviation=deviation.astype(np.float32),
        inverse=(1 / deviation).astype(np.float32),
        taps=delta_taps(),
    )


def _factors() -> Array:
    """Return the butterflies' factors in the order in which they are used."""
    found, span = [], HALF
    while span >= 4:
        for j in range(span // 4):
            twiddles = -2j * np.pi * j * np.arange(1, 4) / span
            found.append(np.exp(twiddles))
        span //= 4
    return np.concatenate(found).view(np.float64).astype(np.float32)


def _order() -> Array:
    """Return the index of each frequency after decimation in frequency: base-4 digits reversed."""
    reversed_, rest, span = np.zeros(HALF, np.int64), np.arange(HALF), HALF
    while span > 1:
        span //= 4
        reversed_ += rest % 4 * span
        rest //= 4
    return reversed_


@uncounted()
def _transform(re: Array, im: Array, factors: Array) -> None:
    """Transform the columns of (HALF, FRAMES) in place; `order` says where each result is."""
    span, used = HALF, 0
    while span >= 4:
        quarter = span // 4
        for j in range(quarter):
            for base in range(j, HALF, span):
                butterfly(re, im, base, quarter, factors, used)
            used += 6
        span = quarter


@uncounted(fastmath=FAST, error_model="numpy", forceinline=True)
def _power_spectrum(re: Array, im: Array, order: Array, twiddles: Array, power: Array) -> None:
    """Set the power spectra (FFT / 2 + 1, FRAMES) of real signals from their complex transforms."""
    for k in range(HALF + 1):
        p, q = order[k % HALF], order[(HALF - k) % HALF]
        c, s = twiddles[k, 0], twiddles[k, 1]
        a, b, x, y = re[p], im[p], re[q], im[q]
        out = power[k]
        for lane in range(FRAMES):
            even_re, even_im = _HALF * (a[lane] + x[lane]), _HALF * (b[lane] - y[lane])
            odd_re, odd_im = _HALF * (b[lane] + y[lane]), _HALF * (x[lane] - a[lane])
            real = even_re + odd_re * c + odd_im * s
            imaginary = even_im + odd_im * c - odd_re * s
            out[lane] = real * real + imaginary * imaginary


@uncounted(fastmath=FAST, error_model="numpy", forceinline=True)
def _logarithms(x: Array) -> None:
    """Take the natural logarithms of normal positive float32 (F, FRAMES) in place."""
    for m in range(len(x)):
        row = x[m]
        for lane in range(FRAMES):
            row[lane] = log(row[lane])


@uncounted(fastmath=FAST, error_model="numpy", forceinline=True)
def _logmel(samples: Array, rows: Array, state: State, w: FeatureWeights, t: Scratch) -> None:
    """Set `t.logmel` (F, FRAMES) from the next (R, SAMPLES_PER_STEP) samples of R <= 4 streams."""
    for r in range(len(rows)):
        audio, overlap = t.audio[r], state.samples[rows[r]]
        copied(overlap, 0, audio, 0, OVERLAP)
        copied(samples[r], 0, audio, OVERLAP, SAMPLES_PER_STEP)
        copied(audio, SAMPLES_PER_STEP, overlap, 0, OVERLAP)
    for n in range(WINDOW // 2):
        even, odd = w.window[2 * n], w.window[2 * n + 1]
        re, im = t.re[n], t.im[n]
        for r in range(len(rows)):
            for frame in range(FRAMES_PER_STEP):
                at = frame * HOP + 2 * n
                re[r * FRAMES_PER_STEP + frame] = t.audio[r, at] * even
                im[r * FRAMES_PER_STEP + frame] = t.audio[r, at + 1] * odd
    for n in range(WINDOW // 2, HALF):
        for lane in range(FRAMES):
            t.re[n, lane] = t.im[n, lane] = _ZERO
    _transform(t.re, t.im, w.factors)
    _power_spectrum(t.re, t.im, w.order, w.twiddles, t.power)
    for m in range(MELS):
        at = w.first[m] * FRAMES
        _filter(
            w.bank,
            w.offset[m],
            0,
            1,
            0,
            w.bins[m],
            t.power,
            at,
            w.floor,
            0,
            t.logmel,
            m * FRAMES,
            0,
        )
    _logarithms(t.logmel)


@uncounted(fastmath=FAST, error_model="numpy", forceinline=True)
def _normalise(r: int, row: int, state: State, w: FeatureWeights, t: Scratch) -> None:
    """Set `t.recent` to a stream's last and next normalised frames."""
    mean, memory = state.mean[row], state.memory[row]
    copied(state.frames[row], 0, t.recent, 0, PAST * MELS)
    for frame in range(FRAMES_PER_STEP):
        out, lane = t.recent[(PAST + frame) * MELS :][:MELS], r * FRAMES_PER_STEP + frame
        for m in range(MELS):
            out[m] = t.logmel[m, lane]
        follow(out, mean, memory, w.mean, w.deviation, w.inverse, t.limited)
        for m in range(MELS):
            out[m] = (out[m] - mean[m]) * w.inverse[m]
    copied(t.recent, FRAMES_PER_STEP * MELS, state.frames[row], 0, PAST * MELS)


@uncounted(fastmath=FAST, error_model="numpy", forceinline=True)
def _deltas(r: int, row: int, state: State, w: FeatureWeights, t: Scratch) -> None:
    """Set the r-th stream's five frames in `t.planes`: its last one, and this step's."""
    copied(state.conv1[row], 0, t.planes, r * FIRST + _PLANES, _PLANES * MELS)
    taps, first, second = w.taps, t.delta[0], t.delta[1]
    for frame in range(FRAMES_PER_STEP):
        x = t.recent[frame * MELS : (frame + PAST + 1) * MELS]
        for m in range(MELS):
            one = two = _ZERO
            for k in range(PAST + 1):
                one += taps[k, 1] * x[k * MELS + m]
                two += taps[k, 2] * x[k * MELS + m]
            first[m], second[m] = one, two
        static = x[PAST // 2 * MELS : (PAST // 2 + 1) * MELS]
        start = ((1 + frame) * STREAMS + r) * FIRST + _PLANES
        out = t.planes[start : start + _PLANES * MELS]
        for m in range(MELS):
            put(out, _PLANES * m, static[m])
            put(out, _PLANES * m + 1, first[m])
            put(out, _PLANES * m + 2, second[m])
            put(out, _PLANES * m + 3, _ZERO)  # a fourth plane, so that the stores are vectorised
    last = (FRAMES_PER_STEP * STREAMS + r) * FIRST + _PLANES
    copied(t.planes, last, state.conv1[row], 0, _PLANES * MELS)


@uncounted()
def step(samples: Array, rows: Array, state: State, w: FeatureWeights, t: Scratch) -> None:
    """Set `t.planes` for the next (R, SAMPLES_PER_STEP) samples of R <= STREAMS streams."""
    _logmel(samples, rows, state, w, t)
    for r in range(len(rows)):
        _normalise(r, rows[r], state, w, t)
        _deltas(r, rows[r], state, w, t)
