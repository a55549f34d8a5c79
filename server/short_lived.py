"""Short-lived secrets, which a page may have in place of a key: signed, and kept nowhere."""

import base64
import binascii
import hashlib
import hmac
import json
import time
from typing import Any, NamedTuple

START = "cs_"
MAX_LENGTH = 4096  # characters; one with a session of 511 letters has fewer
SIZE = hashlib.sha256().digest_size


class Pass(NamedTuple):
    """What a secret stands for."""

    key: str | None  # the name of the key of who asked for it, where the server has keys
    until: int  # seconds since 1970
    session: Any = None  # what a Realtime session that is opened with it begins with


class ShortLived:
    """Makes secrets, and reads those that it or another with the same key has made."""

    def __init__(self, signing_key: bytes) -> None:
        self._signing_key = signing_key

    def make(self, key: str | None, seconds: float, session: Any = None) -> tuple[str, Pass]:
        """Return a secret that is good for so many seconds, and what it stands for."""
        found = Pass(key, round(time.time() + seconds), session)
        data = json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()
        text = base64.urlsafe_b64encode(self._signature(data) + data).decode().rstrip("=")
        return START + text, found

    def read(self, secret: str | None) -> Pass | None:
        """Return what a secret stands for; None for one that is forged, too old, or none."""
        if secret is None or not secret.startswith(START) or len(secret) > MAX_LENGTH:
            return None
        text = secret.removeprefix(START)
        try:
            signed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except (binascii.Error, ValueError):
            return None
        if not hmac.compare_digest(signed[:SIZE], self._signature(signed[SIZE:])):
            return None
        found = Pass(*json.loads(signed[SIZE:]))
        return found if time.time() < found.until else None

    def _signature(self, data: bytes) -> bytes:
        return hmac.digest(self._signing_key, b"secret of a browser\0" + data, hashlib.sha256)
