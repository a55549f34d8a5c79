"""The length that a file's container states: FFmpeg plays a cut file without an error."""

import os
import struct
from collections.abc import Iterator
from io import BytesIO
from math import inf
from typing import BinaryIO, NamedTuple

RIFF_UNKNOWN_LENGTH = 0x7FFF_F000  # writers into a pipe leave this or more (sox, ffmpeg) ...
OGG_LARGEST_PAGE = 27 + 255 + 255 * 255  # bytes: header, lacing table, body
RIFF_HEADER = 12  # bytes before its chunks
LONGEST_HEADER = 2048  # bytes of a wav stream that are searched for its first sample
PCM, PCM_BITS = 1, (16, 24, 32)  # a wav file's tag of integers, and those that are signed
LITTLE_ENDIAN = 2  # a flag of caf
ID3_HEADER, ID3_FOOTER = 10, 0x10  # bytes; the flag of a footer, which is as long
MP3_FRAME_REACH = 4096  # bytes: a Xing or Info tag lies within the first frame
HAS_FRAMES = 1  # a flag of a Xing tag
LAME_PADDING, XING_END = 141, 144  # bytes of a Xing tag up to LAME's padding, and with it
MPEG_1_RATE = 32_000  # Hz, its lowest; the later parts, below it, have half as long frames


def missing_bytes(file: BinaryIO) -> int:
    """Return how many bytes a wav or ogg file announces beyond its end, 0 for other formats.

    A wav data chunk of length 0 or 0x7FFFF000 and more was written into a pipe: its length is
    unknown, nothing is missing.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    magic = file.read(12)
    missing = 0
    if magic[:4] == b"RIFF" and magic[8:] == b"WAVE":
        missing = _riff_data_end(file, size) - size
    elif magic[:4] == b"OggS":
        missing = _last_page_end(file, size) - size
    file.seek(0)
    return max(missing, 0)


class WavHeader(NamedTuple):
    """What stands before the samples of a wav file."""

    tag: int  # of the encoding
    rate: int  # Hz
    channels: int
    block: int  # bytes of a sample of all channels
    bits: int
    start: int  # bytes up to the samples
    length: float  # bytes of the samples; infinite if it was not known

    @property
    def caf(self) -> bytes | None:
        """The header of a Core Audio file with the same samples; None for other encodings.

        FFmpeg reads 64 KiB of a wav stream before it gives a sample, and nothing of this.
        """
        if self.tag != PCM or self.bits not in PCM_BITS:
            return None
        packets = self.block, 1, self.channels, self.bits
        description = struct.pack(">d4s5I", self.rate, b"lpcm", LITTLE_ENDIAN, *packets)
        head = b"caff" + struct.pack(">HH4sq", 1, 0, b"desc", len(description)) + description
        return head + struct.pack(">4sqI", b"data", -1, 0)


def wav_header(data: bytes) -> WavHeader | None:
    """Return the header with which a wav stream begins; None while it is not complete."""
    form = b""
    for name, start, length in _riff_chunks(BytesIO(data), len(data)):
        if name == b"data" and len(form) >= 16:
            tag, channels, rate, _, block, bits = struct.unpack_from("<HHIIHH", form)
            return WavHeader(tag, rate, channels, block, bits, start, length)
        if name == b"fmt ":
            form = data[start : start + int(length)]
    return None


def _riff_data_end(file: BinaryIO, size: int) -> int:
    end = RIFF_HEADER
    for name, start, length in _riff_chunks(file, size):
        if length == inf:
            return 0
        end = start + int(length)
        if name == b"data":
            return end
        end += end % 2
    return end


def _riff_chunks(file: BinaryIO, size: int) -> Iterator[tuple[bytes, int, float]]:
    """Yield the name, the place and the bytes of each chunk of a wav file of `size` bytes.

    The length of the data is infinite where it was not known.
    """
    place = RIFF_HEADER
    while place + 8 <= size:
        file.seek(place)
        name, length = struct.unpack("<4sI", file.read(8))
        place += 8
        known = name != b"data" or 0 < length < RIFF_UNKNOWN_LENGTH
        yield name, place, length if known else inf
        place += length + length % 2


def _last_page_end(file: BinaryIO, size: int) -> int:
    start = max(size - OGG_LARGEST_PAGE, 0)
    file.seek(start)
    tail = file.read(OGG_LARGEST_PAGE)
    page = tail.rfind(b"OggS")
    if page < 0:
        return size
    if page + 27 > len(tail):
        return start + page + 27
    segments = tail[page + 26]
    lacing = tail[page + 27 : page + 27 + segments]
    return start + page + 27 + segments + sum(lacing)


def id3_length(data: bytes) -> int:
    """Return the bytes of the ID3 tag with which data begins, 0 if there is none."""
    if data[:3] != b"ID3" or len(data) < ID3_HEADER:
        return 0
    a, b, c, d = data[6:10]  # 7 bits in each byte
    footer = ID3_HEADER if data[5] & ID3_FOOTER else 0
    return ID3_HEADER + (a << 21 | b << 14 | c << 7 | d) + footer


class Mp3Length(NamedTuple):
    """What a Xing or Info tag states of an mp3 file."""

    frames: int
    padding: int  # samples of the encoder's at both ends, 0 if LAME's part of the tag is missing

    def seconds(self, rate: int) -> float:
        """Return how long that is at the file's sample rate."""
        samples = self.frames * (1152 if rate >= MPEG_1_RATE else 576)
        return max(samples - self.padding, 0) / rate


def mp3_length(file: BinaryIO) -> Mp3Length | None:
    """Return the length that an mp3 file states, None if it does not."""
    file.seek(0)
    file.seek(id3_length(file.read(ID3_HEADER)))
    first = file.read(MP3_FRAME_REACH)
    file.seek(0)
    tag = first[max(first.find(b"Xing"), first.find(b"Info"), 0) :]
    if tag[:4] not in (b"Xing", b"Info") or len(tag) < XING_END or not tag[7] & HAS_FRAMES:
        return None
    has_all = tag[7] & 0xF == 0xF  # fields of Xing's; LAME's lie behind them
    padding = int.from_bytes(tag[LAME_PADDING:XING_END]) if has_all else 0
    return Mp3Length(int.from_bytes(tag[8:12]), (padding >> 12) + (padding & 0xFFF))
