"""NIST SPHERE files: a text header of 1024 bytes, then samples, plain or compressed by shorten.

Source: the SPHERE header specification (NIST 1990) as files of TIMIT, WSJ and Switchboard have it.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from cortado.model.audio.shorten import MAX_CHANNELS, MULAW_TYPES, PIECE, TYPES, Shorten

MAGIC = b"NIST_1A"
MAX_HEADER = 1 << 16  # bytes; all known ones have 1024 or 2048
MAX_SAMPLES = 1 << 40  # per channel
BYTE_ORDERS = {"01": "<", "1": "<", "10": ">"}
CODINGS = {"pcm": "pcm", "linear": "pcm", "ulaw": "ulaw", "mu-law": "ulaw", "alaw": "alaw"}

Block = NDArray[np.float32]


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
    order: str  # of their bytes: "<" low byte first, ">" high byte first
    coding: str  # pcm, ulaw or alaw
    is_shortened: bool


def is_sphere(file: BinaryIO) -> bool:
    """Return whether a file begins like a SPHERE file; it is left at its start."""
    file.seek(0)
    magic = file.read(len(MAGIC))
    file.seek(0)
    return magic == MAGIC


def read_header(file: BinaryIO) -> Header:
    """Return the header of a SPHERE file.

    Raises: SphereError for a header that is cut, or that says what no file can hold.
    """
    fields, size = _fields(file)
    coding, _, compression = str(fields.get("sample_coding", "pcm")).lower().partition(",")
    if coding.strip() not in CODINGS:
        raise SphereError("pcm, ulaw or alaw samples", repr(coding))
    if compression and not compression.strip().startswith("embedded-shorten"):
        raise SphereError("no compression but embedded-shorten", repr(compression))
    coding = CODINGS[coding.strip()]
    width = _number(fields, "sample_n_bytes", range(1, 5), 2 if coding == "pcm" else 1)
    if coding != "pcm" and width != 1:
        raise SphereError(f"{coding} samples of 1 byte", f"{width} bytes")
    order = "<"
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


def _fields(file: BinaryIO) -> tuple[dict[str, str | int | float], int]:
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
    fields: dict[str, str | int | float] = {}
    for line in text[: end.start()].decode("latin-1").split("\n"):
        if line.strip() and not line.startswith(";"):
            name, value = _field(line)
            fields[name] = value
    return fields, size


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


def _number(
    fields: dict[str, str | int | float], name: str, allowed: range, default: int | None = None
) -> int:
    value = fields.get(name, default)
    if isinstance(value, float) and value.is_integer():  # some writers have -r for rates
        value = int(value)
    if value is None or not isinstance(value, int) or value not in allowed:
        got = "none" if value is None else repr(value)
        raise SphereError(f"{name} from {allowed.start} to {allowed.stop - 1}", got)
    return value


def blocks(file: BinaryIO) -> tuple[Header, Iterator[Block]]:
    """Return the header of a SPHERE file, and its (channels, n) samples in [-1, 1) in pieces.

    Raises: SphereError here or while the pieces are read, for a file that is cut or corrupt.
    """
    header = read_header(file)
    available = os.fstat(file.fileno()).st_size - header.size
    if header.is_shortened:
        data = np.zeros(0, np.uint8)
        if available:
            data = np.asarray(np.memmap(file, np.uint8, "r", header.size))
        return header, _shortened(data, header)
    return header, _plain(file, available, header)


def _plain(file: BinaryIO, available: int, header: Header) -> Iterator[Block]:
    frame = header.width * header.channels  # bytes
    count = available // frame if header.samples is None else header.samples
    if count * frame > available:
        raise SphereError("a whole file", f"one cut {count * frame - available} bytes short")
    file.seek(header.size)
    while count:
        data = file.read(min(count, PIECE) * frame)
        if not data or len(data) % frame:
            raise SphereError("a whole file", "one that became shorter")
        count -= len(data) // frame
        yield _scaled(data, header)


def _scaled(data: bytes, header: Header) -> Block:
    """Return the (channels, n) samples of plain data."""
    if header.coding != "pcm":
        table = MULAW if header.coding == "ulaw" else ALAW
        return table[np.frombuffer(data, np.uint8)].reshape(-1, header.channels).T
    raw = np.frombuffer(data, np.uint8).reshape(-1, header.width)
    if header.order == ">":
        raw = raw[:, ::-1]
    whole = np.zeros((len(raw), 4), np.uint8)
    whole[:, 4 - header.width :] = raw  # the sign comes to stand where int32 has it
    values = whole.view("<i4").reshape(-1, header.channels).T
    return (values / 2.0**31).astype(np.float32)


def _shortened(data: NDArray[np.uint8], header: Header) -> Iterator[Block]:
    try:
        source = Shorten(data)
        if source.channels != header.channels:
            got = f"{header.channels} in the header"
            raise SphereError(f"{source.channels} channels as in the shorten stream", got)
        is_mulaw = source.kind in MULAW_TYPES
        if is_mulaw != (header.coding == "ulaw"):
            raise SphereError(f"{header.coding} samples", f"shorten's type {source.kind}")
        left = header.samples
        for piece in source.blocks():
            if left is not None:
                left -= len(piece)
                if left < 0:
                    raise SphereError(f"{header.samples} samples as announced", "more")
            yield _linear(piece, source.kind)
    except SphereError:
        raise
    except ValueError as error:
        expected, _, got = str(error).removeprefix("expected ").rpartition(", got ")
        raise SphereError(f"in shorten data {expected}", got) from error
    if left:
        raise SphereError(f"{header.samples} samples as announced", f"{left} fewer")


def _linear(piece: NDArray[np.int32], kind: int) -> Block:
    """Return (n, channels) samples of shorten's type `kind` as (channels, n) in [-1, 1)."""
    low, high, middle = TYPES[kind]
    if kind == 0:
        return MULAW[_BY_LOUDNESS[piece.T + 128]]
    if kind == 8:  # -1 is the negative zero, which the other type leaves to -128
        with_zero = np.where(piece < -1, piece + 1, np.where(piece == -1, -128, piece))
        return MULAW[_BY_LOUDNESS[with_zero.T + 128]]
    full_scale = np.float32((high - low + 1) // 2)
    return (piece.T.astype(np.float32) - np.float32(middle)) / full_scale


def _mulaw() -> Block:
    """Return what each mu-law code means (ITU-T G.711)."""
    code = ~np.arange(256, dtype=np.uint8)
    exponent, mantissa = (code >> 4) & 7, (code & 15).astype(np.int32)
    size = (((mantissa << 3) + 0x84) << exponent) - 0x84
    return (np.where(code & 0x80, -size, size) / 2.0**15).astype(np.float32)


def _alaw() -> Block:
    """Return what each A-law code means (ITU-T G.711)."""
    code = np.arange(256, dtype=np.uint8) ^ 0x55
    exponent, mantissa = (code >> 4) & 7, (code & 15).astype(np.int32)
    size = np.where(
        exponent == 0,
        (mantissa << 4) + 8,
        ((mantissa << 4) + 0x108) << np.maximum(exponent.astype(np.int32) - 1, 0),
    )
    return (np.where(code & 0x80, size, -size) / 2.0**15).astype(np.float32)


MULAW, ALAW = _mulaw(), _alaw()
# Shorten numbers mu-law codes from the loudest negative one up; -128 is the negative zero.
_BY_LOUDNESS = np.array([127, *range(127), *range(255, 127, -1)], np.uint8)
