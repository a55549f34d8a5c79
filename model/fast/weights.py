"""A recogniser's weights as the compiled kernels read them: norms folded in, gates joined, packed.

Everything is made from the loaded checkpoint; nothing is written to disk.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from model.fast import features
from model.fast.integers import Coded, coded
from model.fast.layout import (
    CHANNELS,
    Array,
    Convolutions,
    DecoderWeights,
    FeatureWeights,
    Layer,
    Matrix,
    Sizes,
)
from model.fast.product import packed, padded
from model.framing import FREQUENCIES, MELS, PLANES
from model.stored import Weighted

Exact = NDArray[np.float64]
NORM_EPSILON = 1e-5  # torch's


class Weights(NamedTuple):
    """All weights."""

    features: FeatureWeights
    convolutions: Convolutions
    layers: tuple[Layer, ...]
    decoder: DecoderWeights


class _Tensors:
    """A state dict's tensors by name, in float64, each of the shape that is expected."""

    def __init__(self, tensors: Mapping[str, Any], prefix: str) -> None:
        self._tensors, self._prefix = tensors, prefix

    def __call__(self, name: str, *shape: int) -> Exact:
        """Return a tensor.

        Raises:
            ValueError: it is not there, or of another shape.
        """
        name = self._prefix + name
        if name not in self._tensors:
            raise ValueError(f"expected a tensor {name!r}, got none")
        found: Exact = np.asarray(self._tensors[name], np.float64)
        if found.shape != shape:
            raise ValueError(f"expected {name!r} of shape {shape}, got {found.shape}")
        return found

    def under(self, prefix: str) -> "_Tensors":
        """Return the tensors whose names go on with `prefix`."""
        return _Tensors(self._tensors, self._prefix + prefix)


def gather(recognizer: Weighted, kind: Any, integers: bool = False) -> Weights:
    """Return a recogniser's weights, its matrices packed in one of the products' KINDS.

    Args:
        recognizer: whose.
        kind: what matrices are packed in.
        integers: let those of the recurrent layers be of integers.

    Raises:
        ValueError: a tensor is missing or of another shape than its configuration says.
    """
    tensors, shape = _Tensors(recognizer.state_dict(), ""), sizes(recognizer)
    encoder, statistics = tensors.under("encoder."), tensors.under("features.normalizer.")
    inputs = [FREQUENCIES * CHANNELS] + [shape.width] * (shape.layers - 1)
    return Weights(
        features.weights(statistics("mean", MELS), statistics("deviation", MELS)),
        Convolutions(
            _convolution(encoder.under("conv1."), PLANES, PLANES + 1, kind),
            _convolution(encoder.under("conv2."), CHANNELS, CHANNELS, kind),
            _conv_lstm(encoder.under("conv_lstm."), kind),
            _convolution(encoder.under("conv3."), CHANNELS, CHANNELS, kind),
        ),
        tuple(
            _layer(encoder.under(f"layers.{n}."), width_in, shape.width, kind, integers)
            for n, width_in in enumerate(inputs)
        ),
        _decoder(tensors.under("decoder."), recognizer, kind, integers),
    )


def sizes(recognizer: Weighted) -> Sizes:
    """Return the sizes that may differ between models."""
    encoder, decoder = recognizer.config.encoder, recognizer.config.decoder
    attention = decoder.attention
    return Sizes(encoder.width, encoder.layers, decoder.width, attention.width, attention.chunk)


def _matrix(weight: Exact, kind: Any, bias: Exact | None = None, segments: int = 1) -> Matrix:
    """Return the affine map of a (K, N) weight."""
    given = np.zeros(weight.shape[1]) if bias is None else bias
    return Matrix(packed(weight.astype(np.float32), kind, segments), padded(given))


def _recurrent(
    weight: Exact, inputs: int, kind: Any, bias: Exact, integers: bool
) -> Matrix | Coded:
    """Return the affine map of a (K, N) weight that reads `inputs` numbers, then states."""
    if integers:
        return coded(weight.astype(np.float32), inputs, bias)
    return _matrix(weight, kind, bias)


def _norm(tensors: _Tensors, width: int) -> tuple[Exact, Exact]:
    """Return the scale and the shift of a frozen batch norm."""
    scale = tensors("weight", width) / np.sqrt(tensors("running_var", width) + NORM_EPSILON)
    return scale, tensors("bias", width) - tensors("running_mean", width) * scale


def _convolution(tensors: _Tensors, channels_in: int, padded_in: int, kind: Any) -> Matrix:
    """Return a 3x3 convolution as a map of (time, frequency, channel) patches."""
    given = tensors("conv.weight", CHANNELS, channels_in, 3, 3)
    weight = given.transpose(2, 3, 1, 0)  # (time, frequency, in, out)
    missing = padded_in - channels_in
    weight = np.pad(weight, ((0, 0), (0, 0), (0, missing), (0, 0)))
    scale, shift = _norm(tensors.under("norm."), CHANNELS)
    return _matrix(weight.reshape(-1, CHANNELS) * scale, kind, shift, 3)


def _conv_lstm(tensors: _Tensors, kind: Any) -> Matrix:
    gates, patch = 4 * CHANNELS, 3 * CHANNELS
    inputs, recurrent = tensors("input.weight", gates, patch), tensors("recurrent", patch, gates)
    return _matrix(np.concatenate([inputs.T, recurrent]), kind, tensors("input.bias", gates), 2)


def _layer(tensors: _Tensors, width_in: int, width: int, kind: Any, integers: bool) -> Layer:
    lstm, gates = tensors.under("lstm."), 4 * width
    inputs, recurrent = lstm("weight_ih_l0", gates, width_in), lstm("weight_hh_l0", gates, width)
    bias = lstm("bias_ih_l0", gates) + lstm("bias_hh_l0", gates)
    scale, shift = _norm(tensors.under("norm."), width)
    dense = tensors("dense.weight", width, width).T * scale
    joined = np.concatenate([inputs, recurrent], 1)
    return Layer(
        _recurrent(joined.T, width_in, kind, bias, integers),
        _recurrent(dense, 0, kind, shift, integers),
    )


def _decoder(tensors: _Tensors, recognizer: Weighted, kind: Any, integers: bool) -> DecoderWeights:
    shape, symbols = sizes(recognizer), len(recognizer.config.vocabulary)
    width, gates = recognizer.config.decoder.embedding, 4 * shape.decoder
    embedding = tensors("embedding.weight", symbols + 1, width)
    inputs = tensors("lstm.weight_ih", gates, width + shape.width)
    recurrent = tensors("lstm.weight_hh", gates, shape.decoder)
    bias = tensors("lstm.bias_ih", gates) + tensors("lstm.bias_hh", gates)
    output = tensors("output.weight", symbols, shape.decoder + shape.width)  # of [hidden, context]
    hidden, context = output[:, : shape.decoder], output[:, shape.decoder :]
    read = np.concatenate([inputs[:, width:], recurrent], 1).T
    keys, queries, directions, biases = _energies(tensors.under("attention."), shape, kind)
    return DecoderWeights(
        keys=keys,
        queries=queries,
        directions=directions,
        biases=biases,
        symbols=(embedding @ inputs[:, :width].T + bias).astype(np.float32),
        lstm=_recurrent(read, shape.width, kind, np.zeros(gates), integers),
        output=_matrix(
            np.concatenate([context, hidden], 1).T, kind, tensors("output.bias", symbols)
        ),
        vocabulary=symbols,
        start=symbols,
    )


def _energies(tensors: _Tensors, shape: Sizes, kind: Any) -> tuple[Matrix, Matrix, Array, Array]:
    """Return both energies' keys and queries, their directions (2, d) and biases (2,)."""
    d = shape.attention
    energies = [tensors.under(f"{name}.") for name in ("monotonic", "chunkwise")]
    keys = np.concatenate([e("key.weight", d, shape.width) for e in energies]).T
    queries = np.concatenate([e("query.weight", d, shape.decoder) for e in energies]).T
    along = [(e("scale"), e("direction", d)) for e in energies]
    directions = [scale * direction / np.linalg.norm(direction) for scale, direction in along]
    return (
        _matrix(keys, kind, np.concatenate([e("key.bias", d) for e in energies])),
        _matrix(queries, kind),
        np.array(directions, np.float32),
        np.array([e("bias") for e in energies], np.float32),
    )
