"""Where streams lie, so that they go on after a restart and at another server.

A store holds bytes by token for some seconds. They begin with a mark of `MARK` bytes that each
write changes, and who replaces them names the marks that he knows: of two servers that have one
stream, or are asked for it, one goes on. What follows the mark is signed together with its name
(`signing.py`), and the name is a hash of the token, so that who reads a store can neither resume a
stream nor forge one, and who writes it cannot give somebody another's.
"""

import hashlib
import logging
import os
import re
import sqlite3
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

logger = logging.getLogger(__name__)

MEMORY = "memory"
PLACES = "redis://HOST:PORT/0, a file, or memory"
BUSY_SECONDS = 1.0  # that a write may wait for another process
MARK = 16  # bytes
SET_UP = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = NORMAL",
    "CREATE TABLE IF NOT EXISTS streams (name TEXT PRIMARY KEY, until REAL, data BLOB)",
)


class StoreError(Exception):
    """The store cannot be read or written now."""


class Store(Protocol):
    """Bytes by token, for some seconds."""

    def put(self, token: str, data: bytes, seconds: float, *known: bytes) -> bool:
        """Hold `data` for so many seconds, if nothing is held but what has one of `known` marks.

        Return whether that was so.

        Raises: StoreError if it cannot be held.
        """

    def get(self, token: str) -> bytes | None:
        """Return what is held, if anything is.

        Raises: StoreError if the store cannot be reached.
        """

    def close(self) -> None:
        """Close what is open; what is held stays."""


def name_of(token: str) -> str:
    """Return the name under which a stream lies: who reads it does not know the token."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


class SqliteStore:
    """A store in a file, for one server or several on one machine."""

    def __init__(self, path: Path, streams: int) -> None:
        """Open or make the file, which holds at most so many streams; the oldest go first.

        Raises: StoreError if it cannot be written.
        """
        self.path, self._streams = path, streams
        self._lock = threading.Lock()
        self._database, self._file = self._opened()

    def _opened(self) -> tuple[sqlite3.Connection, int]:
        """Return the database and the number of its file.

        Raises: StoreError if it cannot be written.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)  # private
            number = os.fstat(file).st_ino
            os.close(file)
            with ExitStack() as failed:
                database = sqlite3.connect(
                    self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
                )
                failed.callback(database.close)
                for statement in SET_UP:
                    database.execute(statement)
                failed.pop_all()
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"expected a file for streams, got {self.path}: {error}") from error
        return database, number

    def _look(self) -> None:
        """Open a new file if somebody has removed this one, which nobody would find after a stop.

        Raises: StoreError if it cannot be written.
        """
        try:
            is_there = self.path.stat().st_ino == self._file
        except OSError:
            is_there = False
        if not is_there:
            logger.warning("file of streams is gone: a new one is begun", extra={"path": self.path})
            before, (self._database, self._file) = self._database, self._opened()
            before.close()

    def put(self, token: str, data: bytes, seconds: float, *known: bytes) -> bool:
        """Hold `data`, as `Store` says."""
        now = time.time()
        row = (name_of(token), now + seconds, data)
        oldest = (
            f"SELECT name FROM streams WHERE length(data) > {MARK}"
            " ORDER BY until DESC LIMIT -1 OFFSET ?"
        )
        with self._lock:
            self._look()
            try:
                self._database.execute("DELETE FROM streams WHERE until < ?", (now,))
                found = self._database.execute(
                    "INSERT INTO streams VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE"
                    " SET until = excluded.until, data = excluded.data"
                    f" WHERE substr(streams.data, 1, {MARK}) IN ({', '.join('?' * len(known))})",
                    (*row, *known),
                )
                self._database.execute(
                    f"DELETE FROM streams WHERE name IN ({oldest})", (self._streams,)
                )
            except sqlite3.Error as error:
                raise StoreError(str(error)) from error
        return found.rowcount > 0

    def get(self, token: str) -> bytes | None:
        """Return what is held, as `Store` says."""
        statement = "SELECT until, data FROM streams WHERE name = ?"
        with self._lock:
            self._look()
            try:
                found = self._database.execute(statement, (name_of(token),)).fetchall()
            except sqlite3.Error as error:
                raise StoreError(str(error)) from error
        return found[0][1] if found and found[0][0] >= time.time() else None

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()


# A script of Lua is one step of Redis. KEYS[1] is the name, the marks follow the first two of ARGV.
PREFIX = "cortado:"
_PUT = f"""local held = redis.call('GET', KEYS[1])
local is_known = not held
for n = 3, #ARGV do is_known = is_known or string.sub(held, 1, {MARK}) == ARGV[n] end
if not is_known then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1"""


class RedisStore:
    """A store in Redis, for servers on several machines."""

    def __init__(self, address: str) -> None:
        """Use the Redis at redis://HOST:PORT/NUMBER.

        Raises: ValueError if that is no address.
        """
        import redis

        self._error: type[Exception] = redis.RedisError
        try:
            self._redis = redis.Redis.from_url(
                address, socket_timeout=BUSY_SECONDS, socket_connect_timeout=BUSY_SECONDS
            )
        except ValueError:
            raise ValueError(f"expected {PLACES} as the store, got {_shown(address)}") from None

    def put(self, token: str, data: bytes, seconds: float, *known: bytes) -> bool:
        """Hold `data`, as `Store` says."""
        name, milliseconds = PREFIX + name_of(token), max(1, round(seconds * 1000))
        try:
            return self._redis.eval(_PUT, 1, name, data, milliseconds, *known) == 1
        except self._error as error:
            raise StoreError(str(error)) from error

    def get(self, token: str) -> bytes | None:
        """Return what is held, as `Store` says."""
        try:
            found = self._redis.get(PREFIX + name_of(token))
        except self._error as error:
            raise StoreError(str(error)) from error
        return found if isinstance(found, bytes) else None

    def close(self) -> None:
        """Close the connections."""
        self._redis.close()


def _shown(address: str) -> str:
    """Return what an address begins with: the rest of it may have a password anywhere."""
    return f"{address.partition(':')[0]}:… (the rest is not shown)"


def default_folder() -> Path:
    """Return the folder of the server's state: systemd's, or the user's."""
    if given := os.environ.get("STATE_DIRECTORY"):
        return Path(given)
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "cortado"


def _reached(store: Store) -> Store:
    """Return a store, having said so where it cannot be reached yet: streams can do without."""
    try:
        store.get("")
    except StoreError as error:
        logger.warning("store not reached", extra={"reason": str(error)})
    return store


def open_store(where: str | None, streams: int) -> Store | None:
    """Return the store at `where`; None for the process's memory alone.

    Raises: ValueError if a store that was asked for cannot be used.
    """
    if where == MEMORY:
        return None
    if where and where.startswith(("redis://", "rediss://", "unix://")):
        return _reached(RedisStore(where))
    if where and re.match(r"[a-z]{2,}:/", where):  # a scheme; one letter is a drive of Windows
        raise ValueError(f"expected {PLACES} as the store, got {_shown(where)}")
    path = Path(where) if where else default_folder() / "streams.sqlite"
    try:
        return SqliteStore(path, streams)
    except StoreError as error:
        if where:
            raise ValueError(str(error)) from error
        logger.warning("streams are kept in memory only", extra={"reason": str(error)})
        return None
