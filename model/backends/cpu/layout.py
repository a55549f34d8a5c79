"""What the fast backend keeps: the weights as its kernels read them, and the streams' states.

The state of all streams lies in preallocated arrays with the stream on dim 0. "Small" is bf16
(uint16) where the CPU multiplies it, else float32: what the matrix products read.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cortado.model.compiled.integers import ZERO, Coded
from cortado.model.compiled.product import room
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
STREAMS = FRAMES // FRAMES_PER_STEP  # 4, which are convolved together: their frames fill the lanes
SPARE = 1024  # numbers that tiles may read beyond the last row
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
    deviation: Array  # (F,)
    inverse: Array  # (F,) 1 / deviation
    taps: Array  # (9, 3)


class Matrix(NamedTuple):
    """An affine map."""

    weight: Array  # `packed`
    bias: Array  # (N,) float32


class Layer(NamedTuple):
    """One recurrent layer."""

    lstm: Matrix | Coded  # (inputs + H, 4 H)
    dense: Matrix | Coded  # (H, H), the batch norm folded in


class Convolutions(NamedTuple):
    """The encoder up to its recurrent layers, batch norms folded in."""

    conv1: Matrix  # (3 * 3 * 4, C)
    conv2: Matrix | Coded  # (3 * 3 * C, C)
    conv_lstm: Matrix | Coded  # (2 * 3 * C, 4 C)
    conv3: Matrix | Coded  # (3 * 3 * C, C)


class DecoderWeights(NamedTuple):
    """The decoder, and the CTC head, which hears the same frames.

    What a frame gives to the gates and the logits is made once, whoever attends to it later: a
    context is a mean of frames, and what it gives is the mean of what they give.
    """

    frames: (
        Matrix | Coded
    )  # (H, 2 d + 2 V): keys, monotonic and chunkwise; to the logits; the CTC head's
    frame_gates: Matrix | Coded  # (H, 4 D)
    states: Matrix | Coded  # (D, 2 d + V): queries; to the logits
    lstm: Matrix | Coded  # (D, 4 D)
    symbols: Array  # (V + 1, 4 D) float32: what the last symbol gives to the gates, biases included
    directions: Array  # (2, d) float32
    biases: Array  # (2,) float32: of the energies
    vocabulary: int  # symbols
    start: int  # symbol before the first


class State(NamedTuple):
    """All that is remembered of each of S streams."""

    samples: Array  # (S, OVERLAP) float32: the last heard
    mean: Array  # (S, F) float32: running
    counted: Array  # (S, 1) float32: frames in it
    frames: Array  # (S, PAST F) float32: the last normalised ones
    conv1: Array  # (S, F * 4) small: the last frame
    conv2: Array  # (S, F / 2 * C) small
    hidden: Array  # (S, 2 FREQUENCIES * C) small: of the convolutional LSTM, the last two frames
    cell: Array  # (S, FREQUENCIES * C) float32
    lstm_hidden: Array  # (S, L, H) small
    lstm_cell: Array  # (S, L, H) float32
    heard: Array  # (S, 1) int64: encoder frames; the n-th is at n % w of the next three
    keys: Array  # (S, w, d) float32: chunk keys of the last w
    gates: Array  # (S, w, 4 D) small: what they give to the decoder's gates
    logits: Array  # (S, w, V) float32: and to its logits
    blank: Array  # (S, 1) int32: whether the CTC head hears no character in the last
    query: Array  # (S, K, 2 d) float32: the decoder's state as both energies see it
    decoder_hidden: Array  # (S, K, D) small
    decoder_cell: Array  # (S, K, D) float32
    symbol: Array  # (S, K) int32: the last written


class Sizes(NamedTuple):
    """What may differ between models."""

    width: int  # H
    layers: int  # L
    decoder: int  # D
    attention: int  # d
    chunk: int  # w
    logits: int  # V: symbols, up to whole panels


def empty_state(streams: int, sizes: Sizes, small: type, hypotheses: int) -> State:
    """Return room for the states of streams; what it holds means nothing."""
    h, layers, d, k, w, v = sizes

    return State(
        samples=room(np.float32, streams, OVERLAP),
        mean=room(np.float32, streams, MELS),
        counted=room(np.float32, streams, 1),
        frames=room(np.float32, streams, PAST * MELS),
        conv1=room(small, streams, MELS * (PLANES + 1)),
        conv2=room(small, streams, MELS // 2 * CHANNELS),
        hidden=room(small, streams, 2 * FREQUENCIES * CHANNELS),
        cell=room(np.float32, streams, FREQUENCIES * CHANNELS),
        lstm_hidden=room(small, streams, layers, h),
        lstm_cell=room(np.float32, streams, layers, h),
        heard=room(np.int64, streams, 1),
        keys=room(np.float32, streams, w, k),
        gates=room(small, streams, w, 4 * d),
        logits=room(np.float32, streams, w, v),
        blank=room(np.int32, streams, 1),
        query=room(np.float32, streams, hypotheses, 2 * k),
        decoder_hidden=room(small, streams, hypotheses, d),
        decoder_cell=room(np.float32, streams, hypotheses, d),
        symbol=room(np.int32, streams, hypotheses),
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
    codes1: Array  # (3, SECOND) uint8: frames as integers
    codes2: Array  # (2, THIRD) uint8
    codes3: Array  # (3, THIRD) uint8
    row_scales: Array  # (40,) float32: of their rows
    sums1: Array  # (40, C) float32
    sums2: Array  # (20, C)
    gates2: Array  # (20, 4 C)
    joined: Array  # (TILE, max inputs + H) small
    gates: Array  # (TILE, 4 H or 4 D) float32
    codes: Array  # (TILE, max inputs + H) uint8: rows of products of integers
    scales: Array  # (TILE,) float32: of the rows
    hidden: Array  # (TILE, H) small
    dense: Array  # (TILE, H) float32
    of_frames: Array  # (TILE, 2 d + 2 V) float32: what `DecoderWeights.frames` makes of frames
    rows: Array  # (TILE,) int64: those in the tile that write
    shares: Array  # (TILE, w) float32: with which they attend to their frames
    states: Array  # (TILE, D) small: of the decoder's LSTM
    decoder_gates: Array  # (TILE, 4 D) float32
    of_states: Array  # (TILE, 2 d + V) float32: what `DecoderWeights.states` makes of states


TILE = 128  # streams whose matrix products are made together


def scratch(sizes: Sizes, small: type) -> Scratch:
    """Return the room that one thread needs."""
    h, _, d, k, w, v = sizes

    found = Scratch(
        heard=room(np.float32, 4, OVERLAP + SAMPLES_PER_STEP),
        re=room(np.float32, FFT // 2, FRAMES),
        im=room(np.float32, FFT // 2, FRAMES),
        power=room(np.float32, FFT // 2 + 1, FRAMES),
        logmel=room(np.float32, MELS, FRAMES),
        planes=room(small, 5 * STREAMS * FIRST + SPARE),
        recent=room(np.float32, (PAST + FRAMES_PER_STEP) * MELS),
        delta=room(np.float32, 2, MELS),
        frames1=room(small, 3 * STREAMS * SECOND + SPARE),
        frames2=room(small, 2 * STREAMS * THIRD + SPARE),
        frames3=room(small, 3 * STREAMS * THIRD + SPARE),
        codes1=room(np.uint8, 3 * STREAMS * SECOND + SPARE),
        codes2=room(np.uint8, 2 * STREAMS * THIRD + SPARE),
        codes3=room(np.uint8, 3 * STREAMS * THIRD + SPARE),
        row_scales=room(np.float32, STREAMS * ROWS3),
        sums1=room(np.float32, STREAMS * ROWS1 * CHANNELS),
        sums2=room(np.float32, (STREAMS * ROWS3 + 8) * CHANNELS),
        gates2=room(np.float32, (STREAMS * ROWS3 + 8) * 4 * CHANNELS),
        joined=room(small, TILE * (max(FREQUENCIES * CHANNELS, h) + h)),
        gates=room(np.float32, TILE * 4 * max(h, d)),
        codes=room(np.uint8, TILE * (max(FREQUENCIES * CHANNELS, h) + max(h, d))),
        scales=room(np.float32, TILE),
        hidden=room(small, TILE * h),
        dense=room(np.float32, TILE * h),
        of_frames=room(np.float32, TILE * (2 * k + 2 * v)),
        rows=room(np.int64, TILE),
        shares=room(np.float32, TILE, w),
        states=room(small, TILE * d),
        decoder_gates=room(np.float32, TILE * 4 * d),
        of_states=room(np.float32, TILE * (2 * k + v)),
    )
    found.codes2[STREAMS * THIRD :] = found.codes3[:] = ZERO  # what the edges of states stay
    return found


class Pool(NamedTuple):
    """Room for the decoder states that the hypotheses of TILE / K streams may move on to."""

    query: Array  # (P, 2 d) float32
    hidden: Array  # (P, D) small
    cell: Array  # (P, D) float32
    energies: Array  # (TILE,) float32
    logits: Array  # (TILE, V) float32


def pool(sizes: Sizes, small: type, cap: int) -> Pool:
    """Return the room that one thread needs, for `cap` symbols a frame at most."""
    _, _, d, k, _, v = sizes

    return Pool(
        query=room(np.float32, cap * TILE, 2 * k),
        hidden=room(small, cap * TILE, d),
        cell=room(np.float32, cap * TILE, d),
        energies=room(np.float32, TILE),
        logits=room(np.float32, TILE, v),
    )
