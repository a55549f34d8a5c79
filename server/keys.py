"""API keys: random secrets of which a file has only the hashes.

A key is `ck_NAME_SECRET`. The secret has 256 bits of chance, so one SHA-256 is hash enough: nobody
can guess through it, as through that of a password. `cortado keys` writes the file; a running
server reads it again once it has changed.
"""

import hashlib
import hmac
import json
import logging
import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from cortado.model.whole_file import whole
from cortado.server.short_lived import ShortLived

KEY = "ck_"
CHANCE = 32  # bytes
NAME = re.compile(r"[a-z0-9-]{1,40}")
HASH = re.compile(r"[0-9a-f]{64}")
NOBODY = hashlib.sha256(secrets.token_bytes(CHANCE)).hexdigest()  # of unknown names: as slow
PRIVATE = 0o600  # a file that nobody else reads
MAX_LENGTH = 200  # characters of what is offered as a key

logger = logging.getLogger(__name__)


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()


def _is_hash(found: object) -> bool:
    return isinstance(found, str) and HASH.fullmatch(found) is not None


class KeyFile:
    """The names of keys and their hashes, in a JSON file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, str]:
        """Return the hashes by name.

        Raises: ValueError if the file is not there, or is not one of keys.
        """
        try:
            found = json.loads(self.path.read_text("utf-8"))
        except FileNotFoundError:
            advice = f"cortado keys {self.path} --add NAME makes one"
            raise ValueError(f"no file of keys at {self.path}: {advice}") from None
        except (OSError, ValueError, RecursionError) as error:
            expected = f"expected a file made by cortado keys at {self.path}"
            raise ValueError(f"{expected}, got another ({error})") from None
        if not isinstance(found, dict) or not all(map(_is_hash, found.values())):
            raise ValueError(f"expected a file made by cortado keys at {self.path}, got another")
        return found

    def add(self, name: str, instead_of: str | None = None) -> str:
        """Make a key of a new name and return it; it is nowhere else.

        The key of the name `instead_of` becomes worthless, all or nothing.

        Raises: ValueError if the name is taken, or is no name, or there is none to replace.
        """
        if not NAME.fullmatch(name):
            raise ValueError(f"expected a name of a-z, 0-9 and -, got {name!r}")
        hashes = self.read() if self.path.exists() else {}
        if instead_of is not None:
            self._drop(hashes, instead_of)
        if name in hashes:
            raise ValueError(f"expected a new name, got {name!r}, which {self.path} has")
        key = f"{KEY}{name}_{secrets.token_urlsafe(CHANCE)}"
        self._write(hashes | {name: _hash(key)})
        return key

    def remove(self, name: str) -> None:
        """Make a key worthless.

        Raises: ValueError if there is none of this name.
        """
        hashes = self.read()
        self._drop(hashes, name)
        self._write(hashes)

    def _drop(self, hashes: dict[str, str], name: str) -> None:
        if hashes.pop(name, None) is None:
            raise ValueError(f"expected a name in {self.path}, got {name!r}")

    def _write(self, hashes: dict[str, str]) -> None:
        """Replace the file at once, so that a server never reads half of it."""
        with whole(self.path, PRIVATE) as part:
            part.write_text(json.dumps(hashes, indent=1), encoding="utf-8")
            if self.path.exists():
                _let_the_same_read(part, self.path.stat())


def _let_the_same_read(file: Path, before: os.stat_result) -> None:
    """Give a file the mode of another and, where this user may, its owner and group."""
    with suppress(PermissionError):
        os.chown(file, before.st_uid, before.st_gid)
    file.chmod(stat.S_IMODE(before.st_mode))


Change = tuple[int, int, int]  # a file's time, number and size


class Keys:
    """Says whose key a client has brought."""

    def __init__(self, file: KeyFile, short_lived: ShortLived) -> None:
        """Know the keys of a file, and the short-lived secrets that stand for them.

        Raises: ValueError if the file is not there, or is not one of keys.
        """
        self._file, self._short_lived = file, short_lived
        self._hashes, self._changed = file.read(), self._change()
        self._broken: Change | None = None  # the change that could not be read

    def name(self, key: str | None) -> str | None:
        """Return the name of a key or of the key behind a short-lived secret; None for neither."""
        if key is None:
            return None
        self._refresh()
        if found := self._short_lived.read(key):
            return found.key if found.key in self._hashes else None
        if len(key) > MAX_LENGTH:
            return None
        name = key.removeprefix(KEY).partition("_")[0]
        is_right = hmac.compare_digest(self._hashes.get(name, NOBODY), _hash(key))
        return name if is_right else None

    def _refresh(self) -> None:
        """Read the file again if it has changed; one that is gone or broken changes nothing.

        Whoever writes it may not have ended yet, so it is read again at the next request.
        """
        if (changed := self._change()) == self._changed:
            return
        try:
            self._hashes, self._changed, self._broken = self._file.read(), changed, None
        except ValueError as error:
            if changed != self._broken:
                logger.warning("keys not read: those before stay", extra={"reason": str(error)})
            self._broken = changed

    def _change(self) -> Change:
        try:
            found = self._file.path.stat()
        except OSError:
            return 0, 0, 0
        return found.st_mtime_ns, found.st_ino, found.st_size
