"""A recogniser's weights as the compiled kernels read them: norms folded in, gates joined, packed.

Everything is made from the loaded checkpoint; nothing is written to disk.
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
from cortado.model.checkpoint_reader import Parameters
from cortado.model.compiled.integers import Coded, coded
from cortado.model.compiled.product import packed, padded
from cortado.model.compiled.vectors import COLUMNS
from cortado.model.features.framing import FREQUENCIES, MELS, PLANES

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


def gather(recognizer: Parameters, kind: Any, integers: bool = False) -> Weights:
    """Return a recogniser's weights, its matrices packed in one of the products' PACKED_TYPES.

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
    patch = 3 * CHANNELS  # of a frame
    return Weights(
        features.weights(statistics("mean", MELS), statistics("deviation", MELS)),
        Convolutions(
            _matrix(*_convolution(encoder.under("conv1."), PLANES, PLANES + 1), kind, 3),
            _read(*_convolution(encoder.under("conv2.")), 3 * patch, kind, 3, integers),
            _read(*_conv_lstm(encoder.under("conv_lstm.")), patch, kind, 2, integers),
            _read(*_convolution(encoder.under("conv3.")), 0, kind, 3, integers),
        ),
        tuple(
            _layer(encoder.under(f"layers.{n}."), width_in, shape.width, kind, integers)
            for n, width_in in enumerate(inputs)
        ),
        _decoder(tensors, recognizer, kind, integers),
    )


def sizes(recognizer: Parameters) -> Sizes:
    """Return the sizes that may differ between models."""
    encoder, decoder = recognizer.config.encoder, recognizer.config.decoder
    attention, panels = decoder.attention, -(-(len(recognizer.config.vocabulary) + 1) // COLUMNS)
    logits = panels * COLUMNS
    widths = encoder.width, encoder.layers, decoder.width
    return Sizes(*widths, attention.width, attention.chunk, logits)


def _matrix(weight: Exact, bias: Exact, kind: Any, segments: int = 1) -> Matrix:
    """Return the affine map of a (K, N) weight."""
    return Matrix(packed(weight.astype(np.float32), kind, segments), padded(bias))


def _read(
    weight: Exact, bias: Exact, inputs: int, kind: Any, segments: int, integers: bool
) -> Matrix | Coded:
    """Return the affine map of a (K, N) weight that reads `inputs` numbers, then states."""
    if integers:
        return coded(weight.astype(np.float32), inputs, bias)
    return _matrix(weight, bias, kind, segments)


def _norm(tensors: _Tensors, width: int) -> tuple[Exact, Exact]:
    """Return the scale and the shift of a frozen batch norm."""
    scale = tensors("weight", width) / np.sqrt(tensors("running_var", width) + NORM_EPSILON)
    return scale, tensors("bias", width) - tensors("running_mean", width) * scale


def _convolution(
    tensors: _Tensors, channels_in: int = CHANNELS, padded_in: int = CHANNELS
) -> tuple[Exact, Exact]:
    """Return the weight and bias of a 3x3 convolution, for (time, frequency, channel) patches."""
    given = tensors("conv.weight", CHANNELS, channels_in, 3, 3)
    weight = given.transpose(2, 3, 1, 0)  # (time, frequency, in, out)
    missing = padded_in - channels_in
    weight = np.pad(weight, ((0, 0), (0, 0), (0, missing), (0, 0)))
    scale, shift = _norm(tensors.under("norm."), CHANNELS)
    return weight.reshape(-1, CHANNELS) * scale, shift


def _conv_lstm(tensors: _Tensors) -> tuple[Exact, Exact]:
    gates, patch = 4 * CHANNELS, 3 * CHANNELS
    inputs, recurrent = tensors("input.weight", gates, patch), tensors("recurrent", patch, gates)
    return np.concatenate([inputs.T, recurrent]), tensors("input.bias", gates)


def _layer(tensors: _Tensors, width_in: int, width: int, kind: Any, integers: bool) -> Layer:
    lstm, gates = tensors.under("lstm."), 4 * width
    inputs, recurrent = lstm("weight_ih_l0", gates, width_in), lstm("weight_hh_l0", gates, width)
    bias = lstm("bias_ih_l0", gates) + lstm("bias_hh_l0", gates)
    scale, shift = _norm(tensors.under("norm."), width)
    dense = tensors("dense.weight", width, width).T * scale
    joined = np.concatenate([inputs, recurrent], 1)
    return Layer(
        _read(joined.T, bias, width_in, kind, 1, integers),
        _read(dense, shift, 0, kind, 1, integers),
    )


def _decoder(
    tensors: _Tensors, recognizer: Parameters, kind: Any, integers: bool
) -> DecoderWeights:
    shape, symbols = sizes(recognizer), len(recognizer.config.vocabulary)
    decoder, ctc = tensors.under("decoder."), tensors.under("ctc.")
    width, d, gates = recognizer.config.decoder.embedding, shape.decoder, 4 * shape.decoder
    embedding = decoder("embedding.weight", symbols + 1, width)
    inputs = decoder("lstm.weight_ih", gates, width + shape.width)  # of [embedding, context]
    recurrent = decoder("lstm.weight_hh", gates, d)
    bias = decoder("lstm.bias_ih", gates) + decoder("lstm.bias_hh", gates)
    output = decoder("output.weight", symbols, d + shape.width)  # of [state, context]
    (keys, queries, key_bias), directions, biases = _energies(decoder.under("attention."), shape)
    head = np.roll(ctc("weight", symbols + 1, shape.width), 1, axis=0)  # its last is the blank
    head_bias = np.roll(ctc("bias", symbols + 1), 1)

    def columns(weight: Exact) -> Exact:
        """Return rows as columns, as many as there are logits."""
        return np.pad(weight, ((0, shape.logits - len(weight)), (0, 0))).T

    def numbers(vector: Exact) -> Exact:
        """Return numbers with zeros, as many as there are logits."""
        return np.pad(vector, (0, shape.logits - len(vector)))

    of_frames = np.concatenate([keys, columns(output[:, d:]), columns(head)], 1)
    of_states = np.concatenate([queries, columns(output[:, :d])], 1)
    frame_bias = np.concatenate([key_bias, np.zeros(shape.logits), numbers(head_bias)])
    output_bias = numbers(decoder("output.bias", symbols))
    state_bias = np.concatenate([np.zeros(2 * shape.attention), output_bias])
    none = np.zeros(gates)
    return DecoderWeights(
        frames=_read(of_frames, frame_bias, shape.width, kind, 1, integers),
        frame_gates=_read(inputs[:, width:].T, none, shape.width, kind, 1, integers),
        states=_read(of_states, state_bias, 0, kind, 1, integers),
        lstm=_read(recurrent.T, none, 0, kind, 1, integers),
        symbols=(embedding @ inputs[:, :width].T + bias).astype(np.float32),
        directions=directions,
        biases=biases,
        vocabulary=symbols,
        start=symbols,
    )


def _energies(
    tensors: _Tensors, shape: Sizes
) -> tuple[tuple[Exact, Exact, Exact], NDArray[np.float32], NDArray[np.float32]]:
    """Return both energies' keys, queries and biases of keys, directions (2, d) and biases (2,)."""
    d = shape.attention
    energies = [tensors.under(f"{name}.") for name in ("monotonic", "chunkwise")]
    keys = np.concatenate([e("key.weight", d, shape.width) for e in energies]).T
    queries = np.concatenate([e("query.weight", d, shape.decoder) for e in energies]).T
    key_bias = np.concatenate([e("key.bias", d) for e in energies])
    along = [(e("scale"), e("direction", d)) for e in energies]
    directions = [scale * direction / np.linalg.norm(direction) for scale, direction in along]
    biases = [e("bias") for e in energies]
    together = keys, queries, key_bias
    return together, np.array(directions, np.float32), np.array(biases, np.float32)
