"""What the fast backend keeps: the weights as its kernels read them, and the streams' states.

The state of all streams lies in preallocated arrays with the stream on dim 0. "Small" is bf16
(uint16) where the CPU multiplies it, else float32: what the matrix products read.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from model.encoder import FREQUENCIES, PLANES
from model.fast.vectors import FRAMES
from model.features import (
    DELTA_LOOKAHEAD,
    FFT,
    FRAMES_PER_STEP,
    MELS,
    OVERLAP,
    SAMPLES_PER_STEP,
)

Array = NDArray[Any]

CHANNELS = 32  # of every convolution: what the kernels are made for
FIRST = (MELS + 2) * (PLANES + 1)  # numbers in a frame of features, a zero plane and edges included
SECOND = (MELS // 2 + 2) * CHANNELS  # in a frame after the first convolution, edges included
THIRD = (FREQUENCIES + 2) * CHANNELS  # after the second, and of the convolutional LSTM
PAST = 2 * DELTA_LOOKAHEAD  # frames that the deltas look back


class FeatureWeights(NamedTuple):
    """Constants of the features, float32."""

    window: Array  # (WINDOW,)
    factors: Array  # of the butterflies
    order: Array  # (FFT / 2,) int64: where the transform leaves each frequency
    turns: Array  # (FFT / 4 + 1, 2) cos and sin that part two real transforms
    bank: Array  # the mel filters' weights, each filter's after the last
    first: Array  # (F,) int64: first bin of each filter
    bins: Array  # (F,) int64: how many it has
    offset: Array  # (F,) int64: where its weights begin
    floor: Array  # (FRAMES,) POWER_FLOOR
    mean: Array  # (F,)
    inverse: Array  # (F,) 1 / deviation
    taps: Array  # (9, 3)


class Matrix(NamedTuple):
    """An affine map."""

    weight: Array  # small, packed
    bias: Array  # (N,) float32


class Layer(NamedTuple):
    """One recurrent layer."""

    lstm: Matrix  # (inputs + H, 4 H)
    dense: Matrix  # (H, H), the batch norm folded in


class Convolutions(NamedTuple):
    """The encoder up to its recurrent layers, batch norms folded in."""

    conv1: Matrix  # (3 * 3 * 4, C)
    conv2: Matrix  # (3 * 3 * C, C)
    conv_lstm: Matrix  # (2 * 3 * C, 4 C)
    conv3: Matrix  # (3 * 3 * C, C)


class DecoderWeights(NamedTuple):
    """The decoder."""

    keys: Matrix  # (H, 2 d): monotonic, chunkwise
    queries: Matrix  # (D, 2 d)
    directions: Array  # (2, d) float32
    biases: Array  # (2,) float32: of the energies
    symbols: Array  # (V + 1, 4 D) float32: what the last symbol gives to the gates, biases included
    lstm: Matrix  # (H + D, 4 D)
    output: Matrix  # (H + D, V)
    vocabulary: int  # V
    start: int  # symbol before the first


class State(NamedTuple):
    """All that is remembered of each of S streams."""

    samples: Array  # (S, OVERLAP) float32: the last heard
    mean: Array  # (S, F) float32: running
    counted: Array  # (S, 1) float32: frames in it
    frames: Array  # (S, PAST F) float32: the last normalised ones
    conv1: Array  # (S, FIRST) small: the last frame, edges included
    conv2: Array  # (S, SECOND) small
    hidden: Array  # (S, 2 THIRD) small: of the convolutional LSTM, the last two frames
    cell: Array  # (S, FREQUENCIES * C) float32
    lstm_hidden: Array  # (S, L, H) small
    lstm_cell: Array  # (S, L, H) float32
    keys: Array  # (S, w, d) float32: chunk keys of the last w encoder frames
    values: Array  # (S, w, H) float32
    valid: Array  # (S, 1) int32: frames among them, up to w
    query: Array  # (S, 2 d) float32: the decoder's state as both energies see it
    decoder_hidden: Array  # (S, D) small
    decoder_cell: Array  # (S, D) float32
    symbol: Array  # (S, 1) int32: the last written


class Sizes(NamedTuple):
    """What may differ between models."""

    width: int  # H
    layers: int  # L
    decoder: int  # D
    attention: int  # d
    chunk: int  # w


def empty_state(streams: int, sizes: Sizes, small: type) -> State:
    """Return room for the states of streams; what it holds means nothing."""
    h, layers, d, k, w = sizes

    def room(kind: type, *shape: int) -> Array:
        return np.zeros((streams, *shape), kind)

    return State(
        samples=room(np.float32, OVERLAP),
        mean=room(np.float32, MELS),
        counted=room(np.float32, 1),
        frames=room(np.float32, PAST * MELS),
        conv1=room(small, FIRST),
        conv2=room(small, SECOND),
        hidden=room(small, 2 * THIRD),
        cell=room(np.float32, FREQUENCIES * CHANNELS),
        lstm_hidden=room(small, layers, h),
        lstm_cell=room(np.float32, layers, h),
        keys=room(np.float32, w, k),
        values=room(np.float32, w, h),
        valid=room(np.int32, 1),
        query=room(np.float32, 2 * k),
        decoder_hidden=room(small, d),
        decoder_cell=room(np.float32, d),
        symbol=room(np.int32, 1),
    )


class Scratch(NamedTuple):
    """Room in which one thread steps a tile of TILE streams.

    What matrix products read and write is flat, whatever its shape: they are compiled once.
    """

    heard: Array  # (4, OVERLAP + SAMPLES_PER_STEP) float32
    re: Array  # (FFT / 2, FRAMES) float32
    im: Array
    power: Array  # (FFT / 2 + 1, FRAMES)
    logmel: Array  # (F, FRAMES)
    planes: Array  # (4, 5, FIRST) small: features of four streams
    recent: Array  # ((PAST + 4) F,) float32
    delta: Array  # (2, F) float32
    frames1: Array  # (3, SECOND) small
    frames2: Array  # (2, THIRD) small: the convolutional LSTM's input and last hidden state
    frames3: Array  # (3, THIRD) small
    sums1: Array  # (40, C) float32
    sums2: Array  # (20, C)
    gates2: Array  # (20, 4 C)
    convolved: Array  # (TILE, 640) small
    joined: Array  # (TILE, max inputs + H) small
    gates: Array  # (TILE, 4 H) float32
    hidden: Array  # (TILE, H) small
    dense: Array  # (TILE, H) float32
    keys: Array  # (TILE, 2 d) float32
    rows: Array  # (TILE,) int64: those in the tile that write
    context: Array  # (TILE, H + D) small
    decoder_gates: Array  # (TILE, 4 D) float32
    logits: Array  # (TILE, V padded) float32
    queries: Array  # (TILE, 2 d) float32
    weights: Array  # (w,) float32
    sums: Array  # (H,) float32


TILE = 60  # streams whose matrix products are made together


def scratch(sizes: Sizes, symbols: int, small: type) -> Scratch:
    """Return the room that one thread needs, for a vocabulary padded to `symbols`."""
    h, _, d, k, w = sizes

    def room(*shape: int, kind: type = np.float32) -> Array:
        return np.zeros(shape, kind)

    return Scratch(
        heard=room(4, OVERLAP + SAMPLES_PER_STEP),
        re=room(FFT // 2, FRAMES),
        im=room(FFT // 2, FRAMES),
        power=room(FFT // 2 + 1, FRAMES),
        logmel=room(MELS, FRAMES),
        planes=room(4 * 5 * FIRST, kind=small),
        recent=room((PAST + FRAMES_PER_STEP) * MELS),
        delta=room(2, MELS),
        frames1=room(3 * SECOND, kind=small),
        frames2=room(2 * THIRD, kind=small),
        frames3=room(3 * THIRD, kind=small),
        sums1=room(MELS // 2 * CHANNELS),
        sums2=room(FREQUENCIES * CHANNELS),
        gates2=room(FREQUENCIES * 4 * CHANNELS),
        convolved=room(TILE, FREQUENCIES * CHANNELS, kind=small),
        joined=room(TILE * (max(FREQUENCIES * CHANNELS, h) + h), kind=small),
        gates=room(TILE * 4 * h),
        hidden=room(TILE * h, kind=small),
        dense=room(TILE * h),
        keys=room(TILE * 2 * k),
        rows=room(TILE, kind=np.int64),
        context=room(TILE * (h + d), kind=small),
        decoder_gates=room(TILE * 4 * d),
        logits=room(TILE * symbols),
        queries=room(TILE * 2 * k),
        weights=room(w),
        sums=room(h),
    )
