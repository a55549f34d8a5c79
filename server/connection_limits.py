"""What all connections together may take: their number, by address, and the processor's time."""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable
from ipaddress import ip_address, ip_network
from time import thread_time

from cortado.server.callers import counted_as
from cortado.server.metrics import Metrics
from cortado.server.origin import ANY
from cortado.server.settings import Settings

FRAMES_REST = 3  # times as long as it took, a turn is followed by what is none
HTTP_REST = 7  # as FRAMES_REST
BEGIN_REST = 1  # the same where a request begins: many clients may come at once

logger = logging.getLogger(__name__)


class Turns:
    """Whose data is parsed next: all connections together have a part of the processor's time."""

    def __init__(self, rest: float, first_rest: float) -> None:
        """Let a turn be followed by `rest` times as long for all else, or by `first_rest`."""
        self._rest, self._first_rest = rest, first_rest
        self._first, self._others = deque[Callable[[], None]](), deque[Callable[[], None]]()
        self._busy = False  # somebody parses, or all rest

    def ask(self, parse: Callable[[], None], *, first: bool = False) -> None:
        """Call `parse` in its turn: after those that came before, or `first` after such alone."""
        (self._first if first else self._others).append(parse)
        if not self._busy:
            self._turn()

    def _turn(self) -> None:
        waiting, rest = self._others, self._rest
        if self._first:
            waiting, rest = self._first, self._first_rest
        self._busy = bool(waiting)
        if waiting:
            began = thread_time()
            try:
                waiting.popleft()()
            finally:
                seconds = rest * (thread_time() - began)
                asyncio.get_running_loop().call_later(seconds, self._turn)


class Connections:
    """The open connections, counted by address."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.settings, self._metrics = settings, metrics
        self._trusts_all = ANY in settings.trusted_proxies
        self._trusted = [ip_network(one) for one in settings.trusted_proxies if one != ANY]
        self._by_address: Counter[str] = Counter()
        self._open = 0
        self.lingering = 0  # refused connections that are open for a moment more
        self.http = Turns(HTTP_REST, BEGIN_REST)
        self.frames = Turns(FRAMES_REST, FRAMES_REST)

    def opened(self, address: str) -> str | None:
        """Count a connection in, unless it is refused; return why it is."""
        most = self.settings.max_connections_per_address
        if self._open >= self.settings.max_connections:
            return self._refused("too_many_connections", address)
        if self._by_address[counted_as(address)] >= most and not self._speaks_for_many(address):
            return self._refused("too_many_connections_of_address", address)
        self._open += 1
        self._by_address[counted_as(address)] += 1
        return None

    def _speaks_for_many(self, address: str) -> bool:
        """Return whether an address is this machine's or a proxy's."""
        try:
            found = ip_address(address)
        except ValueError:
            return self._trusts_all
        return self._trusts_all or found.is_loopback or any(found in one for one in self._trusted)

    def _refused(self, reason: str, address: str) -> str:
        self._metrics.refused.labels(reason).inc()
        logger.warning("connection refused", extra={"reason": reason, "address": address})
        return reason

    def closed(self, address: str) -> None:
        """Count a connection out."""
        self._open -= 1
        counted = counted_as(address)
        self._by_address[counted] -= 1
        if not self._by_address[counted]:
            del self._by_address[counted]
