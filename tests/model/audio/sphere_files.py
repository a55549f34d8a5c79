"""A writer of SPHERE files, plain or in shorten compression, that the decoder has no part in."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

DIFFERENCES, QUIT, BLOCK_SIZE, ZEROS = 1, 4, 5, 8  # functions of shorten
MULAW, SIGNED_LOW_HIGH, MULAW_TWO_ZEROS = 0, 5, 8  # types of sample
BLOCK = 256


class Bits:
    """Bits, the highest of a byte first."""

    def __init__(self) -> None:
        self.bits: list[str] = []

    def unsigned(self, value: int, low: int) -> None:
        high = value >> low
        self.bits.append("0" * high + "1" + (f"{value & ((1 << low) - 1):0{low}b}" if low else ""))

    def number(self, value: int) -> None:
        low = max(value.bit_length() - 1, 0)
        self.unsigned(low, 2)
        self.unsigned(value, low)

    def stream(self) -> bytes:
        """Return a stream of version 2, filled up to a multiple of four bytes."""
        text = "".join(self.bits)
        text += "0" * (-len(text) % 32)
        return b"ajkg\2" + bytes(int(text[k : k + 8], 2) for k in range(0, len(text), 8))


def encode(samples: NDArray[np.int64], kind: int = SIGNED_LOW_HIGH) -> bytes:
    """Return the shorten stream of (n, channels) samples, by their first differences."""
    bits = Bits()
    for value in (kind, samples.shape[1], BLOCK, 0, 0, 0):
        bits.number(value)
    steps = np.diff(samples, axis=0, prepend=np.zeros((1, samples.shape[1]), np.int64))
    codes = np.where(steps < 0, -2 * steps - 1, 2 * steps)
    low = max(int(codes.mean()).bit_length() - 1, 1)
    for start in range(0, len(samples), BLOCK):
        block = codes[start : start + BLOCK]
        if len(block) < BLOCK:
            bits.unsigned(BLOCK_SIZE, 2)
            bits.number(len(block))
        for channel in block.T:
            bits.unsigned(DIFFERENCES, 2)
            bits.unsigned(low - 1, 3)
            for code in channel:
                bits.unsigned(int(code), low)
    bits.unsigned(QUIT, 2)
    return bits.stream()


def header(**fields: object) -> bytes:
    """Return a SPHERE header of `fields`; those that are None are left out."""
    lines = ["NIST_1A\n   1024\n"]
    for name, value in fields.items():
        kind = "-i" if isinstance(value, int) else f"-s{len(str(value))}"
        if value is not None:
            lines.append(f"{name} {kind} {value}\n")
    return ("".join(lines) + "end_head\n").encode().ljust(1024)


def write_sphere(
    path: Path,
    samples: NDArray[np.int64],
    *,
    rate: int = 16000,
    order: str = "01",
    shorten: bool = False,
    **fields: object,
) -> Path:
    """Write (n,) or (n, channels) 16-bit samples as the discs have them, and return the path."""
    samples = samples.reshape(len(samples), -1)
    data = samples.astype("<i2" if order == "01" else ">i2").tobytes()
    known: dict[str, object] = {
        "utterance_id": path.stem,
        "channel_count": samples.shape[1],
        "sample_count": len(samples),
        "sample_rate": rate,
        "sample_n_bytes": 2,
        "sample_byte_format": order,
        "sample_sig_bits": 16,
        "sample_coding": "pcm,embedded-shorten-v2.00" if shorten else "pcm",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(header(**(known | fields)) + (encode(samples) if shorten else data))
    return path
