"""A stream's state as bytes: versioned, checksummed, and bound to the model that made it."""

import hashlib
import struct
from collections.abc import Iterable

MAGIC, VERSION = b"CORTADO\0", 1
DIGEST = 16  # bytes
_HEADER = struct.Struct(f"<8sH{DIGEST}sI")  # magic, version, model, length of what follows


class SnapshotError(ValueError):
    """Bytes that are no state, a damaged one, or that of another model."""


def digest(parts: Iterable[bytes | memoryview]) -> bytes:
    """Return DIGEST bytes that stand for all of `parts`."""
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found.digest()[:DIGEST]


def wrap(model: bytes, state: bytes) -> bytes:
    """Return the bytes that `unwrap` reads: a header, the state, and the digest of both."""
    whole = _HEADER.pack(MAGIC, VERSION, model, len(state)) + state
    return whole + digest([whole])


def unwrap(model: bytes, data: bytes, length: int) -> bytes:
    """Return the state in `data`, which has to be of `model` and of `length` bytes.

    Raises:
        SnapshotError: it is not.
    """
    if len(data) < _HEADER.size + DIGEST:
        raise SnapshotError(f"expected the state of a stream, got {len(data)} bytes")
    magic, version, owner, found = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise SnapshotError(f"expected the state of a stream, got {magic!r}")
    if version != VERSION:
        raise SnapshotError(f"expected a state of version {VERSION}, got version {version}")
    if digest([data[:-DIGEST]]) != data[-DIGEST:]:
        raise SnapshotError("expected a state as it was suspended, got a damaged one")
    if owner != model:
        raise SnapshotError("expected a state of this model, got that of another model or CPU")
    state = data[_HEADER.size : -DIGEST]
    if found != len(state) or length != len(state):
        raise SnapshotError(f"expected {length} bytes of state, got {len(state)}")
    return state
