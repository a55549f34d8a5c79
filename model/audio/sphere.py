"""NIST SPHERE files (TIMIT, WSJ, Switchboard): FFmpeg decodes them, the header is checked here.

FFmpeg believes what a header says, and plays a cut file without a word. It refuses mu-law samples
in shorten compression, although it can decode them: it is shown their numbers as 16-bit samples.

Source: the SPHERE header specification (NIST 1990); T. Robinson, shorten (1994).
"""

import os
import re
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from cortado.model.audio.telephone import linear

MAGIC = b"NIST_1A"
MAX_HEADER = 1 << 16  # bytes; all known ones have 1024 or 2048
MAX_SAMPLES = 1 << 40  # per channel
MAX_CHANNELS = 8
MAX_BLOCK = 1024  # samples of shorten; encoders have 256, and FFmpeg holds many blocks at once
SAMPLES_PER_BYTE = 512  # of shorten; silence in blocks of 256 samples gives 410, a bomb 105,000
MULAW_TYPES = (0, 8)  # of shorten: codes by loudness; 8 has a number for the negative zero
BYTE_ORDERS = {"1": "01", "01": "01", "10": "10"}
BEYOND = b"\xff" * (1 << 14)  # decoded as samples by whoever passes the end of a shorten stream
CODINGS = {"pcm": "pcm", "linear": "pcm", "ulaw": "ulaw", "mu-law": "ulaw", "alaw": "alaw"}

Fields = dict[str, str | int | float]


class SphereError(ValueError):
    """A file that is no whole SPHERE file: what was expected, and what was found."""

    def __init__(self, expected: str, got: str) -> None:
        super().__init__(f"expected {expected}, got {got}")
        self.expected, self.got = expected, got


@dataclass(frozen=True)
class Header:
    """What the header of a SPHERE file says of its samples."""

    size: int  # bytes
    rate: int  # Hz
    channels: int
    samples: int | None  # per channel; None where it does not say
    width: int  # bytes of a sample of one channel
    order: str  # of their bytes: "01" low byte first, "10" high byte first
    coding: str  # pcm, ulaw or alaw
    is_shortened: bool


class SphereFile:
    """A checked SPHERE file in FFmpeg's dialect: a plain header, then the file's own data.

    FFmpeg reads it, and each frame that it decodes goes through `samples`.
    """

    def __init__(self, header: Header, file: BinaryIO) -> None:
        """Take a file that stands behind its header.

        Raises: SphereError for data that cannot be what the header says.
        """
        self.header = header
        self._file = file
        self._heard = 0  # samples per channel
        self._mulaw_type = -1
        self._tail = b""
        start = b""
        if header.is_shortened:
            self._tail = BEYOND  # FFmpeg would fill up the last block of a cut stream
            start = file.read(32)
            kind = _sample_type(start)
            if (kind in MULAW_TYPES) != (header.coding == "ulaw"):
                raise SphereError(f"{header.coding} samples", f"shorten's type {kind}")
            if kind in MULAW_TYPES:
                start, self._mulaw_type = _as_16_bit(start, kind), kind
        self._head = _plain_header(header) + start

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most `size`, none at the end."""
        found, self._head = self._head[:size], self._head[size:]
        found = found or self._file.read(size)
        if not found:
            found, self._tail = self._tail[:size], self._tail[size:]
        return found

    def samples(self, decoded: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return the (channels, n) samples that a frame of FFmpeg's stands for.

        What lies behind the announced samples of a plain file are none.

        Raises: SphereError for other channels or more samples than the header announces.
        """
        announced, channels = self.header.samples, self.header.channels
        if len(decoded) != channels:
            raise SphereError(f"{channels} channels as announced", f"{len(decoded)}")
        self._heard += decoded.shape[1]
        if announced is not None and self._heard > announced:
            if self.header.is_shortened:
                raise SphereError(f"the end after the {announced} samples announced", "none")
            decoded = decoded[:, : max(announced - self._heard, -decoded.shape[1])]
        return decoded if self._mulaw_type < 0 else _linear(decoded, self._mulaw_type)

    def check_end(self) -> None:
        """Raise SphereError where fewer samples have come than the header announces."""
        missing = (self.header.samples or 0) - self._heard
        if missing > 0:
            raise SphereError(f"{self.header.samples} samples as announced", f"{missing} fewer")


def is_sphere(file: BinaryIO) -> bool:
    """Return whether a file begins like a SPHERE file; it is left at its start."""
    file.seek(0)
    magic = file.read(len(MAGIC))
    file.seek(0)
    return magic == MAGIC


def open_sphere(file: BinaryIO) -> SphereFile:
    """Return a SPHERE file for FFmpeg's demuxer `nistsphere`.

    Raises: SphereError for a header that is cut, or that announces what the file cannot hold.
    """
    header = _read_header(file)
    available = os.fstat(file.fileno()).st_size - header.size
    if header.is_shortened:
        if header.samples is None:  # a stream that is cut can be known by its length alone
            raise SphereError("sample_count beside shorten compression", "none")
        if header.samples * header.channels > SAMPLES_PER_BYTE * available:
            most = f"at most {SAMPLES_PER_BYTE} samples a byte"
            raise SphereError(most, f"{header.samples} announced in {available} bytes")
    elif header.samples is not None:
        missing = header.samples * header.width * header.channels - available
        if missing > 0:
            raise SphereError("a whole file", f"one cut {missing} bytes short")
    return SphereFile(header, file)


def _sample_type(start: bytes) -> int:
    """Return the type of sample of a shorten stream that begins with these bytes."""
    bits = "".join(f"{byte:08b}" for byte in start[5:])  # behind the magic number and the version

    def code(low: int) -> int:  # a Rice code: zeros up to a one, then `low` bits
        nonlocal bits
        high, _, rest = bits.partition("1")
        value, bits = rest[:low], rest[low:]
        return len(high) << low | int(value or "0", 2)

    kind, _, block = (code(code(2)) for _ in range(3))
    if not 0 < block <= MAX_BLOCK:
        raise SphereError(f"shorten blocks of at most {MAX_BLOCK} samples", f"{block}")
    return kind


def _as_16_bit(start: bytes, kind: int) -> bytes:
    """Return the start of a shorten stream of mu-law codes as that of one of 16-bit samples.

    The type is the first number in the stream. A number is coded as its own length and then itself;
    the longer codes written here leave all that follows in its place in the bytes.
    """
    if kind == 0:
        return start[:5] + bytes([0x78, 0x50 | start[5] & 15]) + start[6:]
    return start[:5] + b"\x34\x05" + start[6:]


def _linear(numbers: NDArray[np.generic], kind: int) -> NDArray[np.int16]:
    """Return the 16-bit samples that shorten's numbers of mu-law codes stand for."""
    signed = numbers.astype(np.int32)
    size = np.abs(signed)
    if size.max(initial=0) > 129:
        raise SphereError("mu-law samples", "larger ones")
    if kind == 8:
        size -= signed < 0  # -1 is the negative zero; in type 0 it is -128
    size &= 127
    codes = (np.where(signed < 0, 127, 255) - size).astype(np.uint8)  # bits are inverted on a line
    return linear(codes.tobytes(), "mulaw").reshape(codes.shape)


def _plain_header(header: Header) -> bytes:
    coding = "pcm,embedded-shorten-v2.00" if header.is_shortened else header.coding
    lines = [
        f"channel_count -i {header.channels}",
        f"sample_rate -i {header.rate}",
        f"sample_n_bytes -i {2 if header.is_shortened else header.width}",
        f"sample_byte_format -s2 {header.order}",
        f"sample_coding -s{len(coding)} {coding}",
        "end_head",
    ]
    return ("NIST_1A\n   1024\n" + "\n".join(lines) + "\n").encode().ljust(1024)


def _read_header(file: BinaryIO) -> Header:
    fields, size = _fields(file)
    coding, _, compression = str(fields.get("sample_coding", "pcm")).lower().partition(",")
    if coding.strip() not in CODINGS:
        raise SphereError("pcm, ulaw or alaw samples", repr(coding))
    if compression and not compression.strip().startswith("embedded-shorten"):
        raise SphereError("no compression but embedded-shorten", repr(compression))
    coding = CODINGS[coding.strip()]
    if compression and coding == "alaw":
        raise SphereError("pcm or ulaw samples in shorten compression", "alaw")
    width = _number(fields, "sample_n_bytes", range(1, 5), 2 if coding == "pcm" else 1)
    if coding != "pcm" and width != 1:
        raise SphereError(f"{coding} samples of 1 byte", f"{width} bytes")
    order = "01"
    if width > 1 and not compression:
        name = str(fields.get("sample_byte_format", "none"))
        if name not in BYTE_ORDERS:
            raise SphereError("sample_byte_format 01 or 10", repr(name))
        order = BYTE_ORDERS[name]
    count = None
    if "sample_count" in fields:
        count = _number(fields, "sample_count", range(MAX_SAMPLES))
    rate = _number(fields, "sample_rate", range(1, 1 << 31))
    channels = _number(fields, "channel_count", range(1, MAX_CHANNELS + 1), 1)
    return Header(size, rate, channels, count, width, order, coding, bool(compression))


def _fields(file: BinaryIO) -> tuple[Fields, int]:
    """Return a header's fields by name, and its size in bytes."""
    head = file.read(16)
    match = re.match(rb"NIST_1A\s+(\d+)\s", head)
    if match is None:
        raise SphereError("the size of a SPHERE header", repr(head[8:]))
    size = int(match[1])
    if not 16 < size <= MAX_HEADER:
        raise SphereError(f"a SPHERE header of at most {MAX_HEADER} bytes", f"{size}")
    text = file.read(size - len(head))
    end = re.search(rb"(^|\n)end_head", text)
    if len(head) + len(text) < size or end is None:
        raise SphereError("a whole SPHERE header", "a cut one")
    lines = text[: end.start()].decode("latin-1").split("\n")
    return dict(_field(line) for line in lines if line.strip() and line[0] != ";"), size


def _field(line: str) -> tuple[str, str | int | float]:
    """Return the name and value of a line `name -i 1`, `name -r 1.0` or `name -s3 abc`."""
    parts = line.split(None, 2)
    try:
        name, kind, value = parts[0], parts[1], parts[2]
        if kind == "-i":
            return name, int(value.split()[0])
        if kind == "-r":
            return name, float(value.split()[0])
        if kind.startswith("-s"):
            return name, value[: int(kind[2:])].strip()
    except (IndexError, ValueError):
        pass
    raise SphereError("header lines like 'sample_rate -i 16000'", repr(line[:60]))


def _number(fields: Fields, name: str, allowed: range, default: int | None = None) -> int:
    value = fields.get(name, default)
    if isinstance(value, float) and value.is_integer():  # some writers have -r for rates
        value = int(value)
    if value is None or not isinstance(value, int) or value not in allowed:
        got = "none" if value is None else repr(value)
        raise SphereError(f"{name} from {allowed.start} to {allowed.stop - 1}", got)
    return value
