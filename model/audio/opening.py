"""Audio files opened: the bytes of any place, and the container that FFmpeg sees in them."""

import os
import stat
from io import IOBase
from pathlib import Path
from threading import Event
from typing import BinaryIO, Protocol, cast

import av
from av.container import InputContainer

from cortado.model.audio.error import STDIN, AudioError
from cortado.model.audio.remote import fetched, is_remote

LITTLE = 4096  # bytes that are read at a time of a stream that comes slowly
AT_ONCE = {"probesize": "2048", "analyzeduration": "0"}  # FFmpeg's: no seconds to look ahead

EXPECTED = "wav, flac, mp3, ogg, opus, webm, m4a, sphere or other audio"
# No playlists: they would open other files and addresses. Of these none does: mov follows its
# references only if it is told to, and the captions within an avi file are read from memory.
FORMATS = (
    "wav,w64,aiff,au,caf,flac,mp3,aac,ogg,matroska,webm,mov,mp4,m4a,"
    "asf,avi,mpegts,mpeg,amr,ac3,wv,tta"
)


class Readable(Protocol):
    """Whatever FFmpeg can read a stream from."""

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most `size`, none at the end."""


def open_audio(path: Path, unwanted: Event | None = None) -> BinaryIO:
    """Open a file, or standard input, for `decoded`; one that lies elsewhere is fetched.

    Raises: AudioError where there is nothing to read, or is `unwanted` before it is fetched.
    """
    try:
        if path == STDIN:  # unbuffered: what is there is decoded at once
            return cast(BinaryIO, open(0, "rb", buffering=0, closefd=False))
        file = fetched(path, unwanted) if is_remote(path) else _opened(path)
    except AudioError:
        raise
    except FileNotFoundError as error:
        raise AudioError(path, "an audio file", "nothing: it does not exist") from error
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise unreadable(path, error) from error
    if os.fstat(file.fileno()).st_size == 0:
        file.close()
        raise AudioError(path, EXPECTED, "an empty file: record or copy it again")
    return file


def unreadable(path: Path, error: OSError | ValueError) -> AudioError:
    """Return what is said of a file whose system does not let it be read."""
    reason = (isinstance(error, OSError) and error.strerror) or str(error)
    return AudioError(path, "a readable file", f"'{reason}'")


def _opened(path: Path) -> BinaryIO:
    """Open a file of this disk.

    Raises: AudioError for what is none, and OSError or ValueError where it cannot be opened.
    """
    kind = path.stat().st_mode
    if not stat.S_ISREG(kind):
        got = "a directory" if stat.S_ISDIR(kind) else "a device or pipe"
        raise AudioError(path, "an audio file", got)
    return path.open("rb")


def open_container(
    path: Path, file: Readable, formats: str = FORMATS, probing: dict[str, str] | None = None
) -> InputContainer:
    """Open a file whose format is among those named; with `probing` it is the one named."""
    is_seekable = isinstance(file, IOBase) and file.seekable()
    source = _Seekable(cast(BinaryIO, file)) if is_seekable else _Passing(file)
    try:
        options = {"format_whitelist": formats, "err_detect": "crccheck", **(probing or {})}
        kind, size = (formats, LITTLE) if probing else (None, 32_768)
        container = av.open(
            source, "r", format=kind, options=options, metadata_errors="replace", buffer_size=size
        )
    except av.FFmpegError as error:
        got = "an unknown or broken format; ffmpeg may convert it to wav"
        if isinstance(source, _Passing) and source.is_empty:
            got = "nothing"
        raise AudioError(path, EXPECTED, got) from error
    if not container.streams.audio:
        container.close()
        raise AudioError(path, EXPECTED, "a recording or film without sound")
    return container


class _Passing:
    """What is read once, from a pipe or a network, with whether anything came."""

    def __init__(self, file: Readable) -> None:
        self._file, self.is_empty = file, True

    def read(self, size: int) -> bytes:
        """Return the next bytes, none at the end."""
        found = self._file.read(size)
        self.is_empty = self.is_empty and not found
        return found


class _Seekable:
    """A file of which FFmpeg reads here and there.

    PyAV raises the first exception of a file later on, and prints all others; so there is but one.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.tell = file, file.tell
        self._has_failed = False

    def read(self, size: int) -> bytes:
        """Return the next bytes; none where it was closed, for then nobody wants them."""
        return b"" if self._file.closed else self._file.read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Return the new place, -1 where there is no such place, not for the first time."""
        try:
            return self._file.seek(offset, whence)
        except (OSError, ValueError):
            if self._has_failed:
                return -1
            self._has_failed = True
            raise
