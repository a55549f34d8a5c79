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
MP3_FRAME_REACH = 4096  # bytes: a Xing or Info tag lies within the first frame


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


def has_mp3_length(file: BinaryIO) -> bool:
    """Return whether an mp3 file states its length, in a Xing or Info tag."""
    file.seek(0)
    head = file.read(10)
    skipped = 0
    if head[:3] == b"ID3" and len(head) == 10:
        a, b, c, d = head[6:10]  # 7 bits in each byte
        skipped = 10 + (a << 21 | b << 14 | c << 7 | d)
    file.seek(skipped)
    first_frame = file.read(MP3_FRAME_REACH)
    file.seek(0)
    return b"Xing" in first_frame or b"Info" in first_frame
