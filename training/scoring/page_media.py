"""Sound and pictures inside a page, as data addresses: Opus, and log-mel frames as PNG."""

import base64
import io
from fractions import Fraction

import av
import numpy as np
from numpy.typing import NDArray

from cortado.model.arrays import Samples
from cortado.training.data.opus import write_opus

QUIETEST, LOUDEST = 0.1, 0.995  # quantiles of a log-mel picture that are shown as no ink and as all


def opus(samples: Samples) -> str:
    """Return the data address of an Ogg file with (N,) samples at 16 kHz as Opus."""
    file = io.BytesIO()
    write_opus(file, samples)
    return _address("audio/ogg", file.getvalue())


def picture(logmel: NDArray[np.float32], colour: tuple[int, int, int]) -> str:
    """Return the data address of a PNG of (F, N) log-mel energies, low frequencies below.

    The colour is the same all over and its opacity the energy, so that the picture lies on light
    and on dark alike. Two frames and two bands share a point.
    """
    bands, frames = (size // 2 for size in logmel.shape)
    points = logmel[: 2 * bands, : 2 * frames].reshape(bands, 2, frames, 2).mean((1, 3))[::-1]
    low, high = np.quantile(points, [QUIETEST, LOUDEST]) if points.size else (0.0, 1.0)
    ink = (points - low) / max(high - low, 1e-3)
    return _address("image/png", _png(ink, colour))


def _png(opacities: NDArray[np.float32], colour: tuple[int, int, int]) -> bytes:
    """Return a PNG of (H, W) opacities from 0 to 1 of one colour, in 16 steps: it is smaller."""
    pixels = np.empty((*opacities.shape, 4), np.uint8)
    pixels[..., :3] = colour
    pixels[..., 3] = 17 * (15 * opacities.clip(0, 1)).round()
    encoder = av.VideoCodecContext.create("png", "w")
    encoder.height, encoder.width = opacities.shape
    encoder.pix_fmt, encoder.time_base = "rgba", Fraction(1)
    packets = encoder.encode(av.VideoFrame.from_ndarray(pixels, "rgba"))
    return b"".join(bytes(packet) for packet in [*packets, *encoder.encode(None)])


def _address(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
