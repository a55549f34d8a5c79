"""Audio on the wire: PCM bytes to samples and back."""

import numpy as np
from numpy.typing import NDArray

from cortado.server.protocol.messages import SAMPLE_BYTES, Encoding, ErrorCode, ProtocolError


class PcmDecoder:
    """Frames of PCM bytes to samples; the bytes of a sample may lie in two frames."""

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding
        self._rest = b""

    def decode(self, data: bytes) -> NDArray[np.float32]:
        """Return the (N,) samples in [-1, 1] that `data` completes.

        Raises:
            ProtocolError: a sample is not a number or infinite.
        """
        data = self._rest + data
        whole = len(data) - len(data) % SAMPLE_BYTES[self._encoding]
        self._rest = data[whole:]
        if self._encoding == "pcm_s16le":
            return np.frombuffer(data[:whole], "<i2").astype(np.float32) / np.float32(32768)
        samples = np.frombuffer(data[:whole], "<f4").astype(np.float32)
        if not np.isfinite(samples).all():
            raise ProtocolError(
                ErrorCode.INVALID_AUDIO, "expected finite samples, got NaN or infinity"
            )
        return samples.clip(-1, 1)


def encode(samples: NDArray[np.float32], encoding: Encoding) -> bytes:
    """Return the bytes of (N,) samples in [-1, 1); what is outside is clipped.

    Raises:
        ValueError: `samples` is not one-dimensional.
    """
    if samples.ndim != 1:
        raise ValueError(f"expected samples (N,), got {samples.shape}")
    if encoding == "pcm_f32le":
        return samples.astype("<f4").tobytes()
    scaled = np.round(samples * np.float32(32768))
    return scaled.clip(-32768, 32767).astype("<i2").tobytes()
