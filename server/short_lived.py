"""Short-lived secrets, which a page may have in place of a key: signed, and kept nowhere."""

import base64
import json
import time
from typing import Any, NamedTuple

from cortado.server.protocol.messages import ProtocolError
from cortado.server.signing import Signer

START = "cs_"
MAX_LENGTH = 4096  # characters; one with a session of 511 letters has fewer
NAME = "secret of a browser\0"  # so that no other signature is good for one


class Pass(NamedTuple):
    """What a secret stands for."""

    key: str | None  # the name of the key of who asked for it, where the server has keys
    until: int  # seconds since 1970
    session: Any = None  # what a Realtime session that is opened with it begins with


class ShortLived:
    """Makes secrets, and reads those that it or another with the same key has made."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer

    def make(self, key: str | None, seconds: float, session: Any = None) -> tuple[str, Pass]:
        """Return a secret that is good for so many seconds, and what it stands for."""
        found = Pass(key, round(time.time() + seconds), session)
        data = json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()
        text = base64.urlsafe_b64encode(self._signer.signed(data, NAME)).decode().rstrip("=")
        return START + text, found

    def read(self, secret: str | None) -> Pass | None:
        """Return what a secret stands for; None for one that is forged, too old, or none."""
        if secret is None or not secret.startswith(START) or len(secret) > MAX_LENGTH:
            return None
        text = secret.removeprefix(START)
        try:
            signed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
            found = Pass(*json.loads(self._signer.checked(signed, NAME)))
        except (ValueError, ProtocolError):
            return None
        return found if time.time() < found.until else None
