"""The length that a file's container states: FFmpeg plays a cut file without an error."""

import os
import struct
from typing import BinaryIO

RIFF_UNKNOWN_LENGTH = 0x7FFF_F000  # writers into a pipe leave this or more (sox, ffmpeg) ...
OGG_LARGEST_PAGE = 27 + 255 + 255 * 255  # bytes: header, lacing table, body
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


def _riff_data_end(file: BinaryIO, size: int) -> int:
    position = 12
    while position + 8 <= size:
        file.seek(position)
        name, length = struct.unpack("<4sI", file.read(8))
        if name == b"data":
            return 0 if length == 0 or length >= RIFF_UNKNOWN_LENGTH else position + 8 + length
        position += 8 + length + length % 2
    return position


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
