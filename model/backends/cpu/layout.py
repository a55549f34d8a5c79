"""The fast backend's data: the weights as its kernels read them, and the streams' states.

The state of all streams lies in preallocated arrays with the stream on dim 0. "Narrow" is bf16
(uint16) where the CPU multiplies it, else float32: what the matrix products read.
"""

from typing import Annotated, NamedTuple

import numpy as np

from cortado.model.arrays import Array, zeros
from cortado.model.compiled.integers import STEP, ZERO_POINT, QuantizedMatrix
from cortado.model.compiled.product import aligned
from cortado.model.compiled.tiles import ROWS
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

F32, U8, NARROW = np.float32, np.uint8, "narrow"

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
    dense: Matrix | QuantizedMatrix  # (H, H), the batch norm folded in


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

    samples: Annotated[Array, F32, "S", OVERLAP]  # the last samples
    mean: Annotated[Array, F32, "S", MELS]  # running
    memory: Annotated[Array, F32, "S", 3]  # what it remembers beside itself (running_mean.py)
    frames: Annotated[Array, F32, "S", PAST * MELS]  # the last normalised ones
    conv1: Annotated[Array, NARROW, "S", MELS * (PLANES + 1)]  # the last frame
    conv2: Annotated[Array, NARROW, "S", MELS // 2 * CHANNELS]
    hidden: Annotated[Array, NARROW, "S", 2 * FREQUENCIES * CHANNELS]  # of the last two frames
    cell: Annotated[Array, F32, "S", FREQUENCIES * CHANNELS]
    lstm_hidden: Annotated[Array, NARROW, "S", "L", "H"]
    lstm_cell: Annotated[Array, F32, "S", "L", "H"]
    frame_count: Annotated[Array, np.int64, "S", 1]  # frames so far; n is at place n % w below
    keys: Annotated[Array, F32, "S", "w", "d"]  # chunk keys of the last w
    gates: Annotated[Array, NARROW, "S", "w", "4 D"]  # their part of the decoder's gates
    logits: Annotated[Array, F32, "S", "w", "V"]  # and of its logits
    blank: Annotated[Array, np.int32, "S", 1]  # whether the last frame gave the blank
    query: Annotated[Array, F32, "S", "K", "2 d"]  # the queries of both energies
    decoder_hidden: Annotated[Array, NARROW, "S", "K", "D"]
    decoder_cell: Annotated[Array, F32, "S", "K", "D"]
    symbol: Annotated[Array, np.int32, "S", "K"]  # the last symbol written


class Sizes(NamedTuple):
    """The sizes in which models may differ."""

    width: int  # H
    layers: int  # L
    decoder: int  # D
    attention: int  # d
    chunk: int  # w
    logits: int  # V: symbols, up to whole panels
    heads: int  # U: outputs of the CTC head and of the phone head, up to whole panels


def empty_state(streams: int, sizes: Sizes, narrow: type, hypotheses: int) -> State:
    """Return zeroed arrays for the states of streams; a stream's row must be reset before use."""
    named = _named(sizes) | {"S": streams, "K": hypotheses}
    return zeros(State, named, aligned, narrow=narrow)


def _named(sizes: Sizes) -> dict[str, int]:
    """Return the sizes by the letters that the fields of arrays have for them."""
    h, layers, d, k, w, v, heads = sizes
    letters = {"H": h, "L": layers, "D": d, "d": k, "w": w, "V": v}
    inputs, state = FREQUENCIES * CHANNELS, 2 * k + v
    return letters | {
        "tile": TILE,
        "joined": max(inputs, h) + h,
        "gates": 4 * max(h, d),
        "codes": max(inputs, h) + max(h, d) + STEP,
        "frame": state + heads,
        "state": state,
    }


class Scratch(NamedTuple):
    """One thread's working memory for a tile of TILE streams.

    The operands of matrix products are flat, whatever their shape, so that these compile once.
    """

    audio: Annotated[Array, F32, 4, OVERLAP + SAMPLES_PER_STEP]
    re: Annotated[Array, F32, FFT // 2, FRAMES]
    im: Annotated[Array, F32, FFT // 2, FRAMES]
    power: Annotated[Array, F32, FFT // 2 + 1, FRAMES]
    logmel: Annotated[Array, F32, MELS, FRAMES]
    planes: Annotated[Array, NARROW, 5 * STREAMS * FIRST + SPARE]  # features
    recent: Annotated[Array, F32, (PAST + FRAMES_PER_STEP) * MELS]
    limited: Annotated[Array, np.bool_, MELS]  # of a frame's running mean
    delta: Annotated[Array, F32, 2, MELS]
    frames1: Annotated[Array, NARROW, 3 * STREAMS * SECOND + SPARE]
    frames2: Annotated[Array, NARROW, 2 * STREAMS * THIRD + SPARE]  # with the last hidden state
    frames3: Annotated[Array, NARROW, 3 * STREAMS * THIRD + SPARE]
    codes1: Annotated[Array, U8, 3 * STREAMS * SECOND + SPARE]  # frames as integers
    codes2: Annotated[Array, U8, 2 * STREAMS * THIRD + SPARE]
    codes3: Annotated[Array, U8, 3 * STREAMS * THIRD + SPARE]
    row_scales: Annotated[Array, F32, STREAMS * ROWS3]  # of their rows
    sums1: Annotated[Array, F32, STREAMS * ROWS1 * CHANNELS]
    sums2: Annotated[Array, F32, (STREAMS * ROWS3 + 8) * CHANNELS]
    gates2: Annotated[Array, F32, (STREAMS * ROWS3 + 8) * 4 * CHANNELS]
    joined: Annotated[Array, NARROW, "tile joined"]  # a layer's inputs and hidden states
    gates: Annotated[Array, F32, "tile gates"]
    codes: Annotated[Array, U8, "tile codes"]  # rows of products of integers
    scales: Annotated[Array, F32, "tile"]  # of the rows
    hidden: Annotated[Array, NARROW, "tile H"]
    dense: Annotated[Array, F32, "tile H"]
    rows: Annotated[Array, np.int64, "tile"]  # the streams of the tile that write
    chunk_weights: Annotated[Array, F32, "tile", "w"]  # of their attention
    states: Annotated[Array, NARROW, "tile D"]  # of the decoder's LSTM
    decoder_gates: Annotated[Array, F32, "tile 4 D"]
    shared: Annotated[Array, np.int64, "tile"]  # where the gates of each candidate of a search are
    own_gates: Annotated[Array, F32, "4 D"]  # of one of them
    of_states: Annotated[Array, F32, "tile state"]  # the product with `DecoderWeights.states`


TILE = 256  # streams whose matrix products are computed together


def scratch(sizes: Sizes, narrow: type) -> Scratch:
    """Return one thread's working memory."""
    found = zeros(Scratch, _named(sizes), aligned, narrow=narrow)
    found.codes2[STREAMS * THIRD :] = found.codes3[:] = ZERO_POINT  # at the edges of states
    return found


class Shares(NamedTuple):
    """How the threads of a step share out its streams, and what they hand each other.

    The encoder takes a tile after the other, the search of a tile a group of streams after the
    other: a tile's products are computed together, and streams whose search takes long leave the
    others to other threads.
    """

    tiles: Array  # (1 or more,) int64: the first is the number of tiles that are begun
    encoded: Array  # (T,) int64: 1 for a tile whose frames are complete
    groups: Array  # (T,) int64: groups of its streams whose search is begun
    frames: Array  # flat float32: the streams' frames times `DecoderWeights.frames`


def frames_of(streams: int, sizes: Sizes) -> Array:
    """Return memory for `Shares.frames` of so many streams, up to whole tiles of products."""
    return aligned(np.float32, -(-streams // ROWS) * ROWS * _named(sizes)["frame"])


class NewStates(NamedTuple):
    """One thread's memory for the decoder states that a frame adds to those of TILE / K streams."""

    query: Annotated[Array, F32, "cap tile", "2 d"]
    hidden: Annotated[Array, NARROW, "cap tile", "D"]
    cell: Annotated[Array, F32, "cap tile", "D"]
    energies: Annotated[Array, F32, "tile"]
    logits: Annotated[Array, F32, "tile", "V"]


def new_states(sizes: Sizes, narrow: type, cap: int) -> NewStates:
    """Return one thread's memory for new decoder states, for at most `cap` symbols a frame."""
    return zeros(NewStates, _named(sizes) | {"cap": cap}, aligned, narrow=narrow)
