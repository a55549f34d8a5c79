"""Memory of the process: what stays, what it has freed, and how much FFmpeg may ask for."""

import ctypes
import gc
import sys
from contextlib import suppress
from pathlib import Path

MOST_OF_FFMPEG = 2**25  # bytes at once; the tables of ten hours of m4a take some 25 MB


def freeze() -> None:
    """Spare what is loaded by now the garbage collector.

    To scan it all takes a tenth of a second, in which no stream advances.
    """
    gc.collect()
    gc.freeze()


def give_back() -> None:
    """Return freed memory to the system, where the C library (glibc's) would keep it for itself."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another library
            ctypes.CDLL(None).malloc_trim(0)


def bound_ffmpeg() -> None:
    """Let FFmpeg allocate no more than so much at once: a file of 2 kB can ask for gigabytes.

    It is the library that PyAV's wheel brings; of another one the bound stays FFmpeg's own, 2 GiB.
    """
    import av

    for path in Path(av.__file__).parents[1].glob("av.libs/libavutil*"):
        ctypes.CDLL(str(path)).av_max_alloc(ctypes.c_size_t(MOST_OF_FFMPEG))
