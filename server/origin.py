"""Which web pages may open a stream."""

from collections.abc import Collection
from urllib.parse import urlsplit


def allowed(origin: str | None, host: str | None, origins: Collection[str]) -> bool:
    """Return whether a handshake with these `Origin` and `Host` headers is let in.

    A browser always names the page's origin, and a page on any site may open a websocket to any
    host that its visitor can reach; so the page has to be the server's own or a named one. What
    sends no origin is not a browser.
    """
    if origin is None or "*" in origins or origin.rstrip("/") in origins:
        return True
    try:
        own = urlsplit(origin).netloc
    except ValueError:  # such as an IPv6 address without its bracket
        return False
    return bool(own) and host is not None and own.lower() == host.lower()
