"""Signatures of suspended streams: a client carries the state and cannot forge it.

A stream's state is read by compiled code that trusts it, so the server signs what it gives out
(HMAC with SHA-256, RFC 2104) and takes back nothing else. Servers that share a key take each
other's; one without a key makes its own, which ends with the process.
"""

import base64
import binascii
import hmac
import secrets
from hashlib import sha256

from cortado.server.protocol.messages import ErrorCode, ProtocolError

SIZE = sha256().digest_size


class Signer:
    """Signs bytes as text, and reads what it signed."""

    def __init__(self, key: str | None) -> None:
        """Take the key, or make one."""
        self._key = secrets.token_bytes(SIZE) if key is None else key.encode()

    def sign(self, data: bytes) -> str:
        """Return the text that `unsign` reads: base64 of the signature and the data."""
        return base64.b64encode(self._signature(data) + data).decode()

    def unsign(self, text: str) -> bytes:
        """Return the bytes that `sign` was given.

        Raises:
            ProtocolError: it was not this signer, nor one of the same key.
        """
        try:
            signed = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):  # the latter for what is not ASCII
            raise invalid_state("expected a state in base64, got something else") from None
        if not hmac.compare_digest(signed[:SIZE], self._signature(signed[SIZE:])):
            raise invalid_state(
                "expected a state as a server with this key suspended it, got a damaged one or that"
                " of another server"
            )
        return signed[SIZE:]

    def _signature(self, data: bytes) -> bytes:
        return hmac.digest(self._key, data, sha256)


def invalid_state(message: str) -> ProtocolError:
    """Return the error of a state that cannot be resumed."""
    return ProtocolError(ErrorCode.INVALID_STATE, message)
