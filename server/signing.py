"""Signatures of suspended streams: a client carries the state and cannot forge it.

A stream's state is read by compiled code that trusts it, so the server signs what it gives out
(HMAC with SHA-256, RFC 2104) and takes back nothing else. Servers that share a key take each
other's; one without a key makes its own, which stays beside its store or ends with the process.
"""

import base64
import hmac
import os
import secrets
import stat
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from cortado.server.protocol.messages import ErrorCode, ProtocolError

SIZE = sha256().digest_size
LEAST_SECRET = 16  # characters
OF_OTHERS = stat.S_IROTH | stat.S_IWOTH


class Signer:
    """Signs bytes as text, and reads what it signed."""

    def __init__(self, key: str | None) -> None:
        """Take the key, or make one."""
        self.key = secrets.token_bytes(SIZE) if key is None else key.encode()

    def sign(self, data: bytes) -> str:
        """Return the text that `unsign` reads: base64 of the signature and the data."""
        return base64.b64encode(self.signed(data)).decode()

    def unsign(self, text: str) -> bytes:
        """Return the bytes that `sign` was given.

        Raises: ProtocolError if it was not this signer, nor one of the same key.
        """
        try:
            return self.checked(base64.b64decode(text, validate=True))
        except ValueError:
            raise invalid_state("expected a state in base64, got something else") from None

    def signed(self, data: bytes, name: str = "") -> bytes:
        """Return bytes behind their signature, which is good for what has this name."""
        return self._signature(data, name) + data

    def checked(self, signed: bytes, name: str = "") -> bytes:
        """Return the bytes that `signed` was given, with the same name.

        Raises: ProtocolError if it was not this signer, nor one of the same key.
        """
        if not hmac.compare_digest(signed[:SIZE], self._signature(signed[SIZE:], name)):
            raise invalid_state(
                "expected a state as a server with this key suspended it, got a damaged one or that"
                " of another server"
            )
        return signed[SIZE:]

    def _signature(self, data: bytes, name: str) -> bytes:
        return hmac.digest(self.key, name.encode() + data, sha256)


def state_key(folder: Path) -> str:
    """Return the key of a folder, which is made there once.

    Raises:
        OSError: it cannot be read or made.
        ValueError: the file that is there has none, or one that every user of the machine may know.
    """
    path = folder / "state.key"
    folder.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        own = folder / f"state.key.{secrets.token_hex(8)}"
        descriptor = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)  # private
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_urlsafe(SIZE))
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):  # another server was quicker
                os.link(own, path)  # whole, or not at all
        finally:
            own.unlink()
    if path.stat().st_mode & OF_OTHERS:
        raise ValueError(
            f"{path}: expected a key that its owner alone reads, got one that every user of this"
            " machine may read or write: remove it, and a new one is made"
        )
    try:
        key = path.read_text()
    except UnicodeDecodeError:
        raise ValueError(f"{path}: expected a key of text, got other bytes") from None
    if len(key) < LEAST_SECRET:
        raise ValueError(
            f"{path}: expected a key of {LEAST_SECRET} characters or more, got {len(key)}"
        )
    return key


def invalid_state(message: str) -> ProtocolError:
    """Return the error of a state that cannot be resumed."""
    return ProtocolError(ErrorCode.INVALID_STATE, message)
