"""Who may come in: by its page's origin, its key or short-lived secret, and its streams so far."""

import logging
from contextlib import AbstractContextManager
from typing import Any

from prometheus_client import Counter
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request

from cortado.server.callers import Caller, Callers, caller, is_loopback, unmapped
from cortado.server.credentials import credentials
from cortado.server.keys import KeyFile, Keys
from cortado.server.origin import allowed
from cortado.server.settings import Settings
from cortado.server.short_lived import Pass, ShortLived
from cortado.server.signing import Signer

OPERATOR = "operator"  # name of the key that may reload
RETRY_SECONDS = 5  # after which a client that was one too many may come again
HELP = {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": str(RETRY_SECONDS)}}

logger = logging.getLogger(__name__)


class Refused(HTTPException):
    """A request that is not let in: an HTTP status, a word, a line, and headers that help."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(status, message, HELP.get(status))
        self.reason = reason


class Access:
    """Lets requests in, and notes who has sent them."""

    def __init__(self, settings: Settings, signer: Signer, refusals: Counter) -> None:
        """Know the keys of the settings, if any; secrets are signed, and refusals counted.

        Raises: ValueError if the file of keys is not there, or is not one of keys.
        """
        self._settings, self._refusals = settings, refusals
        self.callers = Callers(settings)
        self._short_lived = ShortLived(signer)
        self.keys = Keys(KeyFile(settings.keys), self._short_lived) if settings.keys else None

    def admit(self, request: HTTPConnection, streams: int = 1) -> AbstractContextManager[None]:
        """Note who calls, and return in what the request's streams are counted as the caller's.

        Raises: Refused if the request is not let in.
        """
        self.identify(request)
        if reason := self.callers.full(caller.get(), streams):
            whose = reason.rpartition("_")[2]
            message = f"expected at most max_streams_per_{whose} streams at once, got more"
            raise self._refused(429, reason, message)
        return self.callers.counted(caller.get(), streams)

    def identify(self, request: HTTPConnection) -> None:
        """Note who calls.

        Raises: Refused if a page of this origin may not call, or the request has no key.
        """
        address = unmapped(request.client.host) if request.client else ""
        caller.set(Caller(None, address))
        origin, host = request.headers.get("origin"), request.headers.get("host")
        if not allowed(origin, request.url.scheme, host, self._settings.allowed_origins):
            expected = "expected a page of this server, or of one of its allowed_origins"
            raise self._refused(403, "origin", f"{expected}, got another's")
        name, is_short_lived = None, self.passed(request) is not None
        if self.keys is not None:
            key = credentials(request.headers).key
            name = self.keys.name(key)
            if name is None:
                got = "none" if key is None else "an unknown one"  # never the key itself
                message = f"expected an API key that this server knows, got {got}"
                raise self._refused(401, "key", message)
        caller.set(caller.get()._replace(key=name, short_lived=is_short_lived))

    async def known(self, request: Request) -> None:
        """Do what `identify` does, as a dependency of an address."""
        self.identify(request)

    def passed(self, request: HTTPConnection) -> Pass | None:
        """Return what the short-lived secret of a request stands for; None if it has none."""
        return self._short_lived.read(credentials(request.headers).key)

    def identify_by_key(self, request: HTTPConnection) -> None:
        """Note who calls, and who asks for a short-lived secret, which no other can get.

        Raises: Refused as `identify` does, or if the request comes with such a secret itself.
        """
        self.identify(request)
        if caller.get().short_lived:
            message = "expected an API key, got a short-lived secret, which can ask for no other"
            raise self._refused(403, "short_lived_secret", message)

    def secret(self, seconds: float, session: Any = None) -> tuple[str, Pass]:
        """Return a short-lived secret that stands for who calls, and what it says."""
        return self._short_lived.make(caller.get().key, seconds, session)

    def may_reload(self, request: HTTPConnection) -> bool:
        """Return whether who calls may reload: an operator, or somebody of this machine.

        Who speaks for somebody else, as a proxy on this machine does, is not of it.
        """
        who = caller.get()
        if self.keys is None:
            return is_loopback(who.address) and "x-forwarded-for" not in request.headers
        return who.key == OPERATOR and not who.short_lived

    def _refused(self, status: int, reason: str, message: str) -> Refused:
        self._refusals.labels(reason).inc()
        logger.warning("connection refused", extra={"reason": reason} | caller.get().facts)
        return Refused(status, reason, message)
