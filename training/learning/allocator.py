"""Settings of glibc's allocator: freed memory stays with the training process for reuse.

Every update allocates some gigabytes in blocks of megabytes and frees them. The C library gives
such blocks back to the system and has the next ones cleared page by page, on a virtual machine
through the host: a twentieth of an update's time where the host is idle, a third where it is busy.
"""

import ctypes

M_MXFAST, M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = 1, -1, -2, -4  # of glibc's malloc.h
TOP_PAD = 64 * 2**20  # bytes by which the heap grows at once


def keep_freed_memory() -> bool:
    """Let this process reuse the memory that it frees; return whether the C library agrees.

    glibc does. Other C libraries, and allocators that are preloaded in its place, do not. The
    process then stays at its largest size until it ends.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # no such function, or no such library at all
        return False
    settings = {
        M_MMAP_MAX: 0,
        M_TRIM_THRESHOLD: -1,
        M_TOP_PAD: TOP_PAD,
        M_MXFAST: 0,  # a small free block in its own list would keep two large ones from merging
    }
    heeded = [mallopt(name, value) == 1 for name, value in settings.items()]
    return all(heeded)
