"""Who calls: the key and the address of a request, and how many streams each of them has."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from ipaddress import IPv6Address, ip_address, ip_network
from typing import NamedTuple

from cortado.server.settings import Settings


class Caller(NamedTuple):
    """Who has sent the request that is being answered."""

    key: str | None  # its name
    address: str
    short_lived: bool = False  # whether a short-lived secret stood for the key

    @property
    def facts(self) -> dict[str, str]:
        """What the log says of who calls: the address, and the key's name if there is one."""
        return {"address": self.address} | ({"key": self.key} if self.key else {})


NOBODY = Caller(None, "")
caller: ContextVar[Caller] = ContextVar("caller", default=NOBODY)


def is_loopback(address: str) -> bool:
    """Return whether an address is this machine's own, to which limits by address mean nothing."""
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


def unmapped(address: str) -> str:
    """Return an address in its plain form, one of IPv4 as such, not as IPv6 (::ffff:192.0.2.1)."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped or found)


def counted_as(address: str) -> str:
    """Return what limits by address count one as: of IPv6's public ones their network of 64 bits.

    Whoever has one address of such a network has all of them; in a private one each has its own.
    """
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if found.version == 4 or found.is_private:
        return str(found)
    return str(ip_network((found, 64), strict=False))


class Callers:
    """The streams of each key and of each address, and their limits."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._streams: Counter[tuple[str, str]] = Counter()

    def full(self, who: Caller, streams: int = 1) -> str | None:
        """Return which limit so many more streams of who calls would break; None for none."""
        limits = self._settings
        of_key = self._streams["key", who.key or ""] + streams
        if 0 < limits.max_streams_per_key < of_key and who.key:
            return "too_many_streams_of_key"
        of_address = self._streams["address", counted_as(who.address)] + streams
        if of_address > limits.max_streams_per_address and not is_loopback(who.address):
            return "too_many_streams_of_address"
        return None

    @contextmanager
    def counted(self, who: Caller, streams: int = 1) -> Iterator[None]:
        """Count so many streams of who calls, as long as they last."""
        places = [("key", who.key or ""), ("address", counted_as(who.address))] * streams
        self._streams.update(places)
        try:
            yield
        finally:
            self._streams -= Counter(places)  # which forgets those that have none
