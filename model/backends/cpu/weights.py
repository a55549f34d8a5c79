"""A recogniser's weights as the compiled kernels read them: norms folded in, gates joined, packed.

They are made from the loaded checkpoint; nothing is written to disk.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cortado.model.backends.cpu import features
from cortado.model.backends.cpu.layout import (
    CHANNELS,
    Convolutions,
    DecoderWeights,
    FeatureWeights,
    Layer,
    Matrix,
    Sizes,
)
from cortado.model.backends.heads import rows_of_heads
from cortado.model.checkpoint_reader import Parameters, check_shape
from cortado.model.compiled.integers import QuantizedMatrix, quantized
from cortado.model.compiled.product import packed, padded
from cortado.model.compiled.vectors import COLUMNS
from cortado.model.features.framing import FREQUENCIES, MELS, PLANES

Float64 = NDArray[np.float64]
NORM_EPSILON = 1e-5  # torch's


class Weights(NamedTuple):
    """All weights."""

    features: FeatureWeights
    convolutions: Convolutions
    layers: tuple[Layer, ...]
    decoder: DecoderWeights


class _StateDict:
    """A state dict's tensors by name, in float64, each of the shape that is expected."""

    def __init__(self, tensors: Mapping[str, Any], prefix: str, unread: set[str]) -> None:
        self._tensors, self._prefix, self._unread = tensors, prefix, unread

    def __call__(self, name: str, *shape: int) -> Float64:
        """Return a tensor.

        Raises: ValueError where it is not there, or of another shape.
        """
        name = self._prefix + name
        given = self._tensors.get(name)
        check_shape(name, None if given is None else tuple(given.shape), shape)
        self._unread.discard(name)
        return np.asarray(given, np.float64)

    def scope(self, prefix: str) -> "_StateDict":
        """Return the tensors whose names continue with `prefix`."""
        return _StateDict(self._tensors, self._prefix + prefix, self._unread)


def pack_weights(recognizer: Parameters, dtype: Any, integers: bool = False) -> Weights:
    """Return a recogniser's weights for the kernels.

    Args:
        recognizer: the model.
        dtype: one of the products' WEIGHT_TYPES.
        integers: quantise all matrices but the first convolution's.

    Raises: ValueError where a tensor is missing, too many or of another shape than its
        configuration says.
    """
    given, shape = recognizer.state_dict(), sizes(recognizer)
    unread = set(given)
    tensors = _StateDict(given, "", unread)
    encoder, statistics = tensors.scope("encoder."), tensors.scope("features.normalizer.")
    inputs = [FREQUENCIES * CHANNELS] + [shape.width] * (shape.layers - 1)
    patch = 3 * CHANNELS  # of a frame
    found = Weights(
        features.weights(statistics("mean", MELS), statistics("deviation", MELS)),
        Convolutions(
            _matrix(*_convolution(encoder.scope("conv1."), PLANES, PLANES + 1), dtype, 3),
            _affine_map(*_convolution(encoder.scope("conv2.")), 3 * patch, dtype, 3, integers),
            _affine_map(*_conv_lstm(encoder.scope("conv_lstm.")), patch, dtype, 2, integers),
            _affine_map(*_convolution(encoder.scope("conv3.")), 0, dtype, 3, integers),
        ),
        tuple(
            _layer(encoder.scope(f"layers.{n}."), width_in, shape, dtype, integers)
            for n, width_in in enumerate(inputs)
        ),
        _decoder(tensors, recognizer, dtype, integers),
    )
    for name in sorted(unread):
        check_shape(name, tuple(given[name].shape), None)
    return found


def sizes(recognizer: Parameters) -> Sizes:
    """Return the sizes that may differ between models."""
    encoder, decoder = recognizer.config.encoder, recognizer.config.decoder
    attention, symbols = decoder.attention, len(recognizer.config.vocabulary) + 1
    logits, heads = (
        -(-outputs // COLUMNS) * COLUMNS
        for outputs in (symbols, symbols + recognizer.config.phones)
    )
    widths = encoder.width, encoder.layers, decoder.width
    return Sizes(*widths, attention.width, attention.chunk, logits, heads)


def _matrix(weight: Float64, bias: Float64, dtype: Any, segments: int = 1) -> Matrix:
    """Return the affine map of a (K, N) weight."""
    return Matrix(packed(weight.astype(np.float32), dtype, segments), padded(bias))


def _affine_map(
    weight: Float64, bias: Float64, inputs: int, dtype: Any, segments: int, integers: bool
) -> Matrix | QuantizedMatrix:
    """Return the affine map of a (K, N) weight whose rows are `inputs` inputs, then states."""
    if integers:
        return quantized(weight.astype(np.float32), inputs, bias)
    return _matrix(weight, bias, dtype, segments)


def _norm(tensors: _StateDict, width: int) -> tuple[Float64, Float64]:
    """Return the scale and the shift of a frozen batch norm."""
    tensors("num_batches_tracked")  # of training alone
    scale = tensors("weight", width) / np.sqrt(tensors("running_var", width) + NORM_EPSILON)
    return scale, tensors("bias", width) - tensors("running_mean", width) * scale


def _convolution(
    tensors: _StateDict, channels_in: int = CHANNELS, padded_in: int = CHANNELS
) -> tuple[Float64, Float64]:
    """Return the weight and bias of a 3x3 convolution, for (time, frequency, channel) patches."""
    torch_weight = tensors("conv.weight", CHANNELS, channels_in, 3, 3)
    weight = torch_weight.transpose(2, 3, 1, 0)  # (time, frequency, in, out)
    missing = padded_in - channels_in
    weight = np.pad(weight, ((0, 0), (0, 0), (0, missing), (0, 0)))
    scale, shift = _norm(tensors.scope("norm."), CHANNELS)
    return weight.reshape(-1, CHANNELS) * scale, shift


def _conv_lstm(tensors: _StateDict) -> tuple[Float64, Float64]:
    gates, patch = 4 * CHANNELS, 3 * CHANNELS
    inputs, recurrent = tensors("input.weight", gates, patch), tensors("recurrent", patch, gates)
    return np.concatenate([inputs.T, recurrent]), tensors("input.bias", gates)


def _layer(tensors: _StateDict, width_in: int, shape: Sizes, dtype: Any, integers: bool) -> Layer:
    lstm, width, gates = tensors.scope("lstm."), shape.width, 4 * shape.width
    inputs, recurrent = lstm("weight_ih_l0", gates, width_in), lstm("weight_hh_l0", gates, width)
    bias = lstm("bias_ih_l0", gates) + lstm("bias_hh_l0", gates)
    scale, shift = _norm(tensors.scope("norm."), width)
    dense = tensors("dense.weight", width, width).T * scale
    joined = np.concatenate([inputs, recurrent], 1)
    return Layer(
        _affine_map(joined.T, bias, width_in, dtype, 1, integers),
        _affine_map(dense, shift, 0, dtype, 1, integers),
    )


def _decoder(
    tensors: _StateDict, recognizer: Parameters, dtype: Any, integers: bool
) -> DecoderWeights:
    shape, symbols = sizes(recognizer), len(recognizer.config.vocabulary)
    decoder, phones = tensors.scope("decoder."), recognizer.config.phones
    width, d, gates = recognizer.config.decoder.embedding, shape.decoder, 4 * shape.decoder
    embedding = decoder("embedding.weight", symbols + 1, width)
    inputs = decoder("lstm.weight_ih", gates, width + shape.width)  # of [embedding, context]
    recurrent = decoder("lstm.weight_hh", gates, d)
    bias = decoder("lstm.bias_ih", gates) + decoder("lstm.bias_hh", gates)
    output = decoder("output.weight", symbols, d + shape.width)  # of [state, context]
    (keys, queries, key_bias), directions, biases = _energies(decoder.scope("attention."), shape)
    for name, outputs in (("ctc", symbols + 1), ("phones", phones)):
        if outputs:
            tensors(f"{name}.weight", outputs, shape.width)
            tensors(f"{name}.bias", outputs)
    head, head_bias = rows_of_heads(recognizer.state_dict(), phones > 0)

    def columns(weight: Float64, count: int) -> Float64:
        """Return the transpose, padded with zero columns."""
        return np.pad(weight, ((0, count - len(weight)), (0, 0))).T

    def widened(vector: Float64, count: int) -> Float64:
        """Return a vector padded with zeros."""
        return np.pad(vector, (0, count - len(vector)))

    logits = shape.logits
    of_frames = np.concatenate(
        [keys, columns(output[:, d:], logits), columns(head, shape.heads)], 1
    )
    of_states = np.concatenate([queries, columns(output[:, :d], logits)], 1)
    frame_bias = np.concatenate([key_bias, np.zeros(logits), widened(head_bias, shape.heads)])
    output_bias = widened(decoder("output.bias", symbols), logits)
    state_bias = np.concatenate([np.zeros(2 * shape.attention), output_bias])
    none = np.zeros(gates)
    return DecoderWeights(
        frames=_affine_map(of_frames, frame_bias, shape.width, dtype, 1, integers),
        frame_gates=_affine_map(inputs[:, width:].T, none, shape.width, dtype, 1, integers),
        states=_affine_map(of_states, state_bias, 0, dtype, 1, integers),
        lstm=_affine_map(recurrent.T, none, 0, dtype, 1, integers),
        symbols=(embedding @ inputs[:, :width].T + bias).astype(np.float32),
        directions=directions,
        biases=biases,
        vocabulary=symbols,
        start=symbols,
    )


def _energies(
    tensors: _StateDict, shape: Sizes
) -> tuple[tuple[Float64, Float64, Float64], NDArray[np.float32], NDArray[np.float32]]:
    """Return both energies' keys, queries and biases of keys, directions (2, d) and biases (2,)."""
    d = shape.attention
    energies = [tensors.scope(f"{name}.") for name in ("monotonic", "chunkwise")]
    keys = np.concatenate([e("key.weight", d, shape.width) for e in energies]).T
    queries = np.concatenate([e("query.weight", d, shape.decoder) for e in energies]).T
    key_bias = np.concatenate([e("key.bias", d) for e in energies])
    scaled = [(e("scale"), e("direction", d)) for e in energies]
    directions = [scale * direction / np.linalg.norm(direction) for scale, direction in scaled]
    biases = [e("bias") for e in energies]
    projections = keys, queries, key_bias
    return projections, np.array(directions, np.float32), np.array(biases, np.float32)
