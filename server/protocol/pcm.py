"""Raw audio on the wire: bytes to samples and back."""

import numpy as np
from numpy.typing import NDArray

from cortado.model.audio.telephone import linear
from cortado.server.protocol.messages import SAMPLE_BYTES, ErrorCode, ProtocolError

Samples = NDArray[np.float32]


def samples_of(data: bytes, encoding: str) -> Samples:
    """Return the (N,) samples of N whole ones in a raw encoding; integers are in [-1, 1)."""
    match encoding:
        case "pcm_s16le":
            return np.frombuffer(data, "<i2").astype(np.float32) / np.float32(2**15)
        case "pcm_s24le":
            wide = np.zeros((len(data) // 3, 4), np.uint8)  # the low byte stays zero
            wide[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
            return wide.view("<i4")[:, 0].astype(np.float32) / np.float32(2**31)
        case "pcm_s32le":
            return np.frombuffer(data, "<i4").astype(np.float32) / np.float32(2**31)
        case "pcm_f32le":
            return np.frombuffer(data, "<f4").astype(np.float32)
        case "mulaw" | "alaw":
            return linear(data, encoding).astype(np.float32) / np.float32(2**15)
    raise ValueError(f"expected a raw encoding ({', '.join(SAMPLE_BYTES)}), got {encoding}")


class PcmDecoder:
    """Frames of bytes in a raw encoding to samples; a sample may lie in two frames."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._rest = b""

    def decode(self, data: bytes) -> Samples:
        """Return the (N,) samples in [-1, 1] that `data` completes.

        Raises: ProtocolError if a sample is not a number or infinite.
        """
        data = self._rest + data
        whole = len(data) - len(data) % SAMPLE_BYTES[self._encoding]
        self._rest = data[whole:]
        samples = samples_of(data[:whole], self._encoding)
        if self._encoding != "pcm_f32le":
            return samples
        if not np.isfinite(samples).all():
            raise ProtocolError(
                ErrorCode.INVALID_AUDIO, "expected finite samples, got NaN or infinity"
            )
        return samples.clip(-1, 1)


def encode(samples: Samples, encoding: str) -> bytes:
    """Return the bytes of (N,) samples in [-1, 1); what is outside is clipped.

    Raises: ValueError if `samples` are none, or not to be written in this encoding.
    """
    if samples.ndim != 1 or not np.issubdtype(samples.dtype, np.floating):
        number = f"the number {samples}: a piece is an array"
        got = f"{samples.shape} {samples.dtype}" if samples.ndim else number
        raise ValueError(f"expected samples (N,) as floats in [-1, 1), got {got}")
    if not np.isfinite(samples).all():
        raise ValueError("expected finite samples, got NaN or infinity")
    if encoding == "pcm_f32le":
        return samples.astype("<f4").tobytes()
    if encoding != "pcm_s16le":
        raise ValueError(f"expected pcm_s16le or pcm_f32le for samples, got {encoding}: send bytes")
    scaled = np.round(samples * np.float32(32768))
    return scaled.clip(-32768, 32767).astype("<i2").tobytes()
