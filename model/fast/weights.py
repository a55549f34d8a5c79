"""A recogniser's weights as the compiled kernels read them: norms folded in, gates joined, packed.

Everything is made from the loaded checkpoint; nothing is written to disk.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from model.encoder import PLANES
from model.fast import features
from model.fast.layout import (
    CHANNELS,
    Convolutions,
    DecoderWeights,
    FeatureWeights,
    Layer,
    Matrix,
    Sizes,
)
from model.fast.product import packed, padded
from model.recognizer import Recognizer

Exact = NDArray[np.float64]
NORM_EPSILON = 1e-5  # torch's


class Weights(NamedTuple):
    """All weights."""

    features: FeatureWeights
    convolutions: Convolutions
    layers: tuple[Layer, ...]
    decoder: DecoderWeights


class _Tensors:
    """A state dict's tensors by name, in float64."""

    def __init__(self, tensors: Mapping[str, Any], prefix: str) -> None:
        self._tensors, self._prefix = tensors, prefix

    def __call__(self, name: str) -> Exact:
        found: Exact = self._tensors[self._prefix + name].detach().cpu().double().numpy()
        return found

    def under(self, prefix: str) -> "_Tensors":
        """Return the tensors whose names go on with `prefix`."""
        return _Tensors(self._tensors, self._prefix + prefix)


def gather(recognizer: Recognizer, small: type) -> Weights:
    """Return a recogniser's weights, its matrices in bf16 (uint16) or float32."""
    tensors = _Tensors(recognizer.state_dict(), "")
    encoder = tensors.under("encoder.")
    layers = range(recognizer.config.encoder.layers)
    return Weights(
        features.weights(recognizer.features),
        Convolutions(
            _convolution(encoder.under("conv1."), PLANES + 1, small),
            _convolution(encoder.under("conv2."), CHANNELS, small),
            _conv_lstm(encoder.under("conv_lstm."), small),
            _convolution(encoder.under("conv3."), CHANNELS, small),
        ),
        tuple(_layer(encoder.under(f"layers.{n}."), small) for n in layers),
        _decoder(tensors.under("decoder."), recognizer, small),
    )


def sizes(recognizer: Recognizer) -> Sizes:
    """Return the sizes that may differ between models."""
    encoder, decoder = recognizer.config.encoder, recognizer.config.decoder
    attention = decoder.attention
    return Sizes(encoder.width, encoder.layers, decoder.width, attention.width, attention.chunk)


def _matrix(weight: Exact, small: type, bias: Exact | None = None) -> Matrix:
    """Return the affine map of a (K, N) weight."""
    given = np.zeros(weight.shape[1]) if bias is None else bias
    return Matrix(packed(weight.astype(np.float32), small), padded(given))


def _norm(tensors: _Tensors) -> tuple[Exact, Exact]:
    """Return the scale and the shift of a frozen batch norm."""
    scale = tensors("weight") / np.sqrt(tensors("running_var") + NORM_EPSILON)
    return scale, tensors("bias") - tensors("running_mean") * scale


def _convolution(tensors: _Tensors, channels_in: int, small: type) -> Matrix:
    """Return a 3x3 convolution as a map of (time, frequency, channel) patches."""
    weight = tensors("conv.weight").transpose(2, 3, 1, 0)  # (time, frequency, in, out)
    missing = channels_in - weight.shape[2]
    weight = np.pad(weight, ((0, 0), (0, 0), (0, missing), (0, 0)))
    scale, shift = _norm(tensors.under("norm."))
    return _matrix(weight.reshape(-1, weight.shape[3]) * scale, small, shift)


def _conv_lstm(tensors: _Tensors, small: type) -> Matrix:
    joined = np.concatenate([tensors("input.weight").T, tensors("recurrent")])
    return _matrix(joined, small, tensors("input.bias"))


def _layer(tensors: _Tensors, small: type) -> Layer:
    joined = np.concatenate([tensors("lstm.weight_ih_l0"), tensors("lstm.weight_hh_l0")], 1)
    bias = tensors("lstm.bias_ih_l0") + tensors("lstm.bias_hh_l0")
    scale, shift = _norm(tensors.under("norm."))
    dense = tensors("dense.weight").T * scale
    return Layer(_matrix(joined.T, small, bias), _matrix(dense, small, shift))


def _decoder(tensors: _Tensors, recognizer: Recognizer, small: type) -> DecoderWeights:
    embedding, inputs = tensors("embedding.weight"), tensors("lstm.weight_ih")
    width = embedding.shape[1]
    joined = np.concatenate([inputs[:, width:], tensors("lstm.weight_hh")], 1)
    bias = tensors("lstm.bias_ih") + tensors("lstm.bias_hh")
    output = tensors("output.weight")  # of [hidden, context]
    hidden = recognizer.config.decoder.width
    energies = [tensors.under(f"attention.{kind}.") for kind in ("monotonic", "chunkwise")]
    keys = np.concatenate([e("key.weight") for e in energies]).T
    directions = [e("scale") * e("direction") / np.linalg.norm(e("direction")) for e in energies]
    return DecoderWeights(
        keys=_matrix(keys, small, np.concatenate([e("key.bias") for e in energies])),
        queries=_matrix(np.concatenate([e("query.weight") for e in energies]).T, small),
        directions=np.array(directions, np.float32),
        biases=np.array([e("bias") for e in energies], np.float32),
        symbols=(embedding @ inputs[:, :width].T + bias).astype(np.float32),
        lstm=_matrix(joined.T, small),
        output=_matrix(
            np.concatenate([output[:, hidden:], output[:, :hidden]], 1).T,
            small,
            tensors("output.bias"),
        ),
        vocabulary=len(recognizer.config.vocabulary),
        start=len(recognizer.config.vocabulary),
    )
