"""The fast backend's data: the weights as its kernels read them, and the streams' states.

The state of all streams lies in preallocated arrays with the stream on dim 0. "Narrow" is bf16
(uint16) where the CPU multiplies it, else float32: what the matrix products read.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cortado.model.compiled.integers import ZERO_POINT, QuantizedMatrix
from cortado.model.compiled.product import aligned
from cortado.model.compiled.vectors import FRAMES
from cortado.model.features.framing import (
    DELTA_LOOKAHEAD,
    FFT,
    FRAMES_PER_STEP,
    FREQUENCIES,
    MELS,
    OVERLAP,
    PLANES,
    SAMPLES_PER_STEP,
)

Array = NDArray[Any]

CHANNELS = 32  # of every convolution: what the kernels are made for
FIRST = (MELS + 8) * (PLANES + 1)  # numbers in a frame of features: a zero plane, edges, zeros
SECOND = (MELS // 2 + 2) * CHANNELS  # in a frame after the first convolution, edges included
THIRD = (FREQUENCIES + 2) * CHANNELS  # after the second, and of the convolutional LSTM
ROWS1, ROWS2, ROWS3 = FIRST // (2 * (PLANES + 1)), SECOND // (2 * CHANNELS), THIRD // CHANNELS
STREAMS = FRAMES // FRAMES_PER_STEP  # 4, convolved together: their frames fill the lanes
SPARE = 1024  # numbers that tiles may read beyond the last row
PAST = 2 * DELTA_LOOKAHEAD  # frames that the deltas look back


class FeatureWeights(NamedTuple):
    """Constants of the features, float32."""

    window: Array  # (WINDOW,)
    factors: Array  # twiddle factors of the butterflies
    order: Array  # (FFT / 2,) int64: index of each frequency after the transform
    twiddles: Array  # (FFT / 2 + 1, 2) cos and sin that separate two real transforms
    bank: Array  # the mel filters' weights, each filter's after the last
    first: Array  # (F,) int64: first bin of each filter
    bins: Array  # (F,) int64: bins of each filter
    offset: Array  # (F,) int64: where its weights begin
    floor: Array  # (FRAMES,) POWER_FLOOR
    mean: Array  # (F,)
    deviation: Array  # (F,)
    inverse: Array  # (F,) 1 / deviation
    taps: Array  # (9, 3)


class Matrix(NamedTuple):
    """An affine map."""

    weight: Array  # `packed`
    bias: Array  # (N,) float32


class Layer(NamedTuple):
    """One recurrent layer."""

    lstm: Matrix | QuantizedMatrix  # (inputs + H, 4 H)
    dense: Matrix | QuantizedMatrix  # (A H, H), the batch norm folded in


class Convolutions(NamedTuple):
    """The encoder up to its recurrent layers, batch norms folded in."""

    conv1: Matrix  # (3 * 3 * 4, C)
    conv2: Matrix | QuantizedMatrix  # (3 * 3 * C, C)
    conv_lstm: Matrix | QuantizedMatrix  # (2 * 3 * C, 4 C)
    conv3: Matrix | QuantizedMatrix  # (3 * 3 * C, C)


class DecoderWeights(NamedTuple):
    """The decoder and the CTC head, which reads the same frames.

    A frame's part of the gates and of the logits is computed once, however often it is attended to:
    a context is a mean of frames, so its part is the mean of their parts.
    """

    # (H, 2 d + V + U): keys, monotonic and chunkwise; to the logits; the heads'
    frames: Matrix | QuantizedMatrix
    frame_gates: Matrix | QuantizedMatrix  # (H, 4 D)
    states: Matrix | QuantizedMatrix  # (D, 2 d + V): queries; to the logits
    lstm: Matrix | QuantizedMatrix  # (D, 4 D)
    symbols: Array  # (V + 1, 4 D) float32: the last symbol's part of the gates, biases included
    directions: Array  # (2, d) float32
    biases: Array  # (2,) float32: of the energies
    vocabulary: int  # symbols
    start: int  # symbol before the first


class State(NamedTuple):
    """The state of each of S streams."""

    samples: Array  # (S, OVERLAP) float32: the last samples
    mean: Array  # (S, F) float32: running
    memory: Array  # (S, 3) float32: what it remembers beside itself (running_mean.py)
    frames: Array  # (S, PAST F) float32: the last normalised ones
    conv1: Array  # (S, F * 4) narrow: the last frame
    conv2: Array  # (S, F / 2 * C) narrow
    hidden: Array  # (S, 2 FREQUENCIES * C) narrow: of the convolutional LSTM, the last two frames
    cell: Array  # (S, FREQUENCIES * C) float32
    lstm_hidden: Array  # (S, L, H) narrow
    lstm_cell: Array  # (S, L, H) float32
    frame_count: Array  # (S, 1) int64: encoder frames so far; frame n is at place n % w below
    keys: Array  # (S, w, d) float32: chunk keys of the last w
    gates: Array  # (S, w, 4 D) narrow: their part of the decoder's gates
    logits: Array  # (S, w, V) float32: and of its logits
    blank: Array  # (S, 1) int32: whether the CTC head gave the blank at the last frame
    query: Array  # (S, K, 2 d) float32: the queries of both energies
    decoder_hidden: Array  # (S, K, D) narrow
    decoder_cell: Array  # (S, K, D) float32
    symbol: Array  # (S, K) int32: the last symbol written


class Sizes(NamedTuple):
    """The sizes in which models may differ."""

    width: int  # H
    layers: int  # L
    seen: int  # A: states of its LSTM that a dense layer sees
    decoder: int  # D
    attention: int  # d
    chunk: int  # w
    logits: int  # V: symbols, up to whole panels
    heads: int  # U: outputs of the CTC head and of the phone head, up to whole panels


def empty_state(streams: int, sizes: Sizes, narrow: type, hypotheses: int) -> State:
    """Return zeroed arrays for the states of streams; a stream's row must be reset before use."""
    h, layers, _, d, k, w, v, _ = sizes

    return State(
        samples=aligned(np.float32, streams, OVERLAP),
        mean=aligned(np.float32, streams, MELS),
        memory=aligned(np.float32, streams, 3),
        frames=aligned(np.float32, streams, PAST * MELS),
        conv1=aligned(narrow, streams, MELS * (PLANES + 1)),
        conv2=aligned(narrow, streams, MELS // 2 * CHANNELS),
        hidden=aligned(narrow, streams, 2 * FREQUENCIES * CHANNELS),
        cell=aligned(np.float32, streams, FREQUENCIES * CHANNELS),
        lstm_hidden=aligned(narrow, streams, layers, h),
        lstm_cell=aligned(np.float32, streams, layers, h),
        frame_count=aligned(np.int64, streams, 1),
        keys=aligned(np.float32, streams, w, k),
        gates=aligned(narrow, streams, w, 4 * d),
        logits=aligned(np.float32, streams, w, v),
        blank=aligned(np.int32, streams, 1),
        query=aligned(np.float32, streams, hypotheses, 2 * k),
        decoder_hidden=aligned(narrow, streams, hypotheses, d),
        decoder_cell=aligned(np.float32, streams, hypotheses, d),
        symbol=aligned(np.int32, streams, hypotheses),
    )


class Scratch(NamedTuple):
    """One thread's working memory for a tile of TILE streams.

    The operands of matrix products are flat, whatever their shape, so that these compile once.
    """

    audio: Array  # (4, OVERLAP + SAMPLES_PER_STEP) float32
    re: Array  # (FFT / 2, FRAMES) float32
    im: Array
    power: Array  # (FFT / 2 + 1, FRAMES)
    logmel: Array  # (F, FRAMES)
    planes: Array  # (5, STREAMS, FIRST) narrow: features
    recent: Array  # ((PAST + 4) F,) float32
    delta: Array  # (2, F) float32
    frames1: Array  # (3, STREAMS, SECOND) narrow
    frames2: Array  # (2, STREAMS, THIRD) narrow: the LSTM's input and last hidden state
    frames3: Array  # (3, STREAMS, THIRD) narrow
    codes1: Array  # (3, STREAMS, SECOND) uint8: frames as integers
    codes2: Array  # (2, STREAMS, THIRD) uint8
    codes3: Array  # (3, STREAMS, THIRD) uint8
    row_scales: Array  # (STREAMS ROWS3,) float32: of their rows
    sums1: Array  # (STREAMS ROWS1, C) float32
    sums2: Array  # (STREAMS ROWS3, C)
    gates2: Array  # (STREAMS ROWS3, 4 C)
    joined: Array  # (TILE, max inputs + H) narrow
    gates: Array  # (TILE, 4 H or 4 D) float32
    codes: Array  # (TILE, max inputs + H) uint8: rows of products of integers
    scales: Array  # (TILE,) float32: of the rows
    hidden: Array  # (TILE, A H) narrow
    dense: Array  # (TILE, H) float32
    of_frames: Array  # (TILE, 2 d + V + U) float32: the product with `DecoderWeights.frames`
    rows: Array  # (TILE,) int64: the streams of the tile that write
    chunk_weights: Array  # (TILE, w) float32: of their attention
    states: Array  # (TILE, D) narrow: of the decoder's LSTM
    decoder_gates: Array  # (TILE, 4 D) float32
    of_states: Array  # (TILE, 2 d + V) float32: the product with `DecoderWeights.states`


TILE = 128  # streams whose matrix products are computed together


def scratch(sizes: Sizes, narrow: type) -> Scratch:
    """Return one thread's working memory."""
    h, _, seen, d, k, w, v, heads = sizes

    found = Scratch(
        audio=aligned(np.float32, 4, OVERLAP + SAMPLES_PER_STEP),
        re=aligned(np.float32, FFT // 2, FRAMES),
        im=aligned(np.float32, FFT // 2, FRAMES),
        power=aligned(np.float32, FFT // 2 + 1, FRAMES),
        logmel=aligned(np.float32, MELS, FRAMES),
        planes=aligned(narrow, 5 * STREAMS * FIRST + SPARE),
        recent=aligned(np.float32, (PAST + FRAMES_PER_STEP) * MELS),
        delta=aligned(np.float32, 2, MELS),
        frames1=aligned(narrow, 3 * STREAMS * SECOND + SPARE),
        frames2=aligned(narrow, 2 * STREAMS * THIRD + SPARE),
        frames3=aligned(narrow, 3 * STREAMS * THIRD + SPARE),
        codes1=aligned(np.uint8, 3 * STREAMS * SECOND + SPARE),
        codes2=aligned(np.uint8, 2 * STREAMS * THIRD + SPARE),
        codes3=aligned(np.uint8, 3 * STREAMS * THIRD + SPARE),
        row_scales=aligned(np.float32, STREAMS * ROWS3),
        sums1=aligned(np.float32, STREAMS * ROWS1 * CHANNELS),
        sums2=aligned(np.float32, (STREAMS * ROWS3 + 8) * CHANNELS),
        gates2=aligned(np.float32, (STREAMS * ROWS3 + 8) * 4 * CHANNELS),
        joined=aligned(narrow, TILE * (max(FREQUENCIES * CHANNELS, h) + h)),
        gates=aligned(np.float32, TILE * 4 * max(h, d)),
        codes=aligned(np.uint8, TILE * (max(FREQUENCIES * CHANNELS, seen * h) + max(h, d))),
        scales=aligned(np.float32, TILE),
        hidden=aligned(narrow, TILE * seen * h),
        dense=aligned(np.float32, TILE * h),
        of_frames=aligned(np.float32, TILE * (2 * k + v + heads)),
        rows=aligned(np.int64, TILE),
        chunk_weights=aligned(np.float32, TILE, w),
        states=aligned(narrow, TILE * d),
        decoder_gates=aligned(np.float32, TILE * 4 * d),
        of_states=aligned(np.float32, TILE * (2 * k + v)),
    )
    found.codes2[STREAMS * THIRD :] = found.codes3[:] = ZERO_POINT  # at the edges of states
    return found


class NewStates(NamedTuple):
    """One thread's memory for the decoder states that a frame adds to those of TILE / K streams."""

    query: Array  # (P, 2 d) float32
    hidden: Array  # (P, D) narrow
    cell: Array  # (P, D) float32
    energies: Array  # (TILE,) float32
    logits: Array  # (TILE, V) float32


def new_states(sizes: Sizes, narrow: type, cap: int) -> NewStates:
    """Return one thread's memory for new decoder states, for at most `cap` symbols a frame."""
    _, _, _, d, k, _, v, _ = sizes

    return NewStates(
        query=aligned(np.float32, cap * TILE, 2 * k),
        hidden=aligned(narrow, cap * TILE, d),
        cell=aligned(np.float32, cap * TILE, d),
        energies=aligned(np.float32, TILE),
        logits=aligned(np.float32, TILE, v),
    )
