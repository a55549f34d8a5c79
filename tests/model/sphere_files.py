"""A small shorten encoder and a writer of SPHERE files: what the decoder's tests decode.

The encoder is written from the format's definition with Python integers and lists, apart from the
decoder: every block is coded by the function that the caller names, good or bad.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

DIFF0, DIFF1, DIFF2, DIFF3, QUIT, BLOCKSIZE, BITSHIFT, QLPC, ZERO, VERBATIM = range(10)
SIGNED_HIGH_LOW, SIGNED_LOW_HIGH, MULAW = 3, 5, 8
FIXED: dict[int, tuple[int, ...]] = {DIFF0: (), DIFF1: (1,), DIFF2: (2, -1), DIFF3: (3, -3, 1)}


class Bits:
    """Bits, the highest of a byte first."""

    def __init__(self) -> None:
        self.bits: list[str] = []

    def unsigned(self, value: int, low: int) -> None:
        high = value >> low
        self.bits.append("0" * high + "1" + (f"{value & ((1 << low) - 1):0{low}b}" if low else ""))

    def signed(self, value: int, low: int) -> None:
        self.unsigned(2 * value if value >= 0 else -2 * value - 1, low + 1)

    def number(self, value: int) -> None:
        low = max(value.bit_length() - 1, 0)
        self.unsigned(low, 2)
        self.unsigned(value, low)

    def whole_words(self) -> bytes:
        """Return the bits as bytes, filled up to a multiple of four of them."""
        text = "".join(self.bits)
        text += "0" * (-len(text) % 32)
        return bytes(int(text[k : k + 8], 2) for k in range(0, len(text), 8))


@dataclass
class Plan:
    """How a block is coded."""

    function: int = DIFF1
    shift: int = 0  # lowest bits that are left out; they must be zeros
    coefficients: tuple[int, ...] = ()  # of QLPC, in 1/32


def _toward_zero(a: int, b: int) -> int:
    return abs(a) // b * (1 if a >= 0 else -1)


class _Channel:
    def __init__(self, version: int, means: int, wrap: int, silence: int) -> None:
        self.version, self.count, self.wrap = version, means, wrap
        self.means = [silence] * max(means, 1)
        self.past = [0] * wrap

    def mean(self, shift: int) -> int:
        if not self.count:
            return self.means[0]
        rounding = self.count // 2 if self.version > 1 else 0
        mean = _toward_zero(sum(self.means) + rounding, self.count)
        return mean >> shift if self.version > 1 else mean

    def remember(self, block: list[int], shift: int) -> None:
        rounding = len(block) // 2 if self.version > 1 else 0
        mean = _toward_zero(sum(block) + rounding, len(block))
        if self.count:
            self.means = [*self.means[1:], mean << (shift if self.version > 1 else 0)]
        self.past = [*self.past, *block][-self.wrap :]


def encode(
    samples: NDArray[np.int64],
    plans: Sequence[Plan],
    version: int = 2,
    kind: int = SIGNED_LOW_HIGH,
    block: int = 256,
    order: int = 0,
    means: int = 4,
    verbatim: bytes = b"",
) -> bytes:
    """Return the shorten stream of (n, channels) samples; plans are used in turn."""
    bits = Bits()
    for value in (kind, samples.shape[1], block, order, means, 0):
        bits.number(value)
    if verbatim:
        bits.unsigned(VERBATIM, 2)
        bits.unsigned(len(verbatim), 5)
        for byte in verbatim:
            bits.unsigned(byte, 8)
    silence = {2: 0x80, 4: 0x8000, 6: 0x8000}.get(kind, 0)
    channels = [_Channel(version, means, max(3, order), silence) for _ in range(samples.shape[1])]
    size, shift, used = block, 0, 0
    for start in range(0, len(samples), block):
        piece = samples[start : start + block]
        if len(piece) != size:
            bits.unsigned(BLOCKSIZE, 2)
            bits.number(len(piece))
            size = len(piece)
        for number, channel in enumerate(channels):
            plan = plans[used % len(plans)]
            used += 1
            if plan.shift != shift:
                bits.unsigned(BITSHIFT, 2)
                bits.unsigned(plan.shift, 2)
                shift = plan.shift
            _put_block(bits, [int(x) >> shift for x in piece[:, number]], channel, plan)
    bits.unsigned(QUIT, 2)
    return b"ajkg" + bytes([version]) + bits.whole_words()


def _put_block(bits: Bits, values: list[int], channel: _Channel, plan: Plan) -> None:
    mean = channel.mean(plan.shift)
    bits.unsigned(plan.function, 2)
    if plan.function == ZERO:
        assert not any(values)
    else:
        _put_residuals(bits, values, channel, plan, mean)
    channel.remember(values, plan.shift)


def _put_residuals(bits: Bits, values: list[int], channel: _Channel, plan: Plan, mean: int) -> None:
    is_filter = plan.function == QLPC
    weights = plan.coefficients if is_filter else FIXED[plan.function]
    line = [*channel.past, *values]
    known = [x - mean for x in line] if is_filter else line
    residuals = []
    for t in range(len(channel.past), len(line)):
        predicted = sum(w * known[t - 1 - k] for k, w in enumerate(weights))
        if is_filter:
            predicted = (predicted + (32 if channel.version > 1 else 0)) >> 5
        elif plan.function == DIFF0:
            predicted = mean
        residuals.append(known[t] - predicted)
    low = max(int(np.mean(np.abs(residuals)) * 0.7).bit_length(), 0)
    bits.unsigned(low, 3)
    if is_filter:
        bits.unsigned(len(weights), 2)
        for weight in weights:
            bits.signed(weight, 5)
    for residual in residuals:
        bits.signed(residual, low)


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
    coding = "pcm,embedded-shorten-v2.00" if shorten else "pcm"
    data = samples.astype("<i2" if order == "01" else ">i2").tobytes()
    if shorten:
        data = encode(samples, [Plan(DIFF2), Plan(DIFF1), Plan(QLPC, 0, (50, -20))], order=2)
    known: dict[str, object] = {
        "utterance_id": path.stem,
        "channel_count": samples.shape[1],
        "sample_count": len(samples),
        "sample_rate": rate,
        "sample_n_bytes": 2,
        "sample_byte_format": order,
        "sample_sig_bits": 16,
        "sample_coding": coding,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(header(**(known | fields)) + data)
    return path
