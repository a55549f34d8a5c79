"""Which web pages may open a stream, and by which names the server may be addressed."""

from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import urlsplit

DEFAULT_PORTS = {"http": 80, "https": 443}
ANY = "*"


def allowed(origin: str | None, scheme: str, host: str | None, origins: Collection[str]) -> bool:
    """Return whether a page of `origin` may connect to a server addressed as `scheme` and `host`.

    A browser always names the page's origin, and a page on any site may open a websocket to any
    host that its visitor can reach; so the page has to be the server's own or a named one. What
    sends no origin is not a browser.
    """
    if origin is None or ANY in origins or origin.rstrip("/") in origins:
        return True
    own = _parts(f"{scheme.replace('ws', 'http')}://{host}")
    return own is not None and own == _parts(origin)


def is_origin(text: str) -> bool:
    """Return whether a text is a web page's origin, as https://example.org."""
    return _parts(text) is not None and not urlsplit(text).path


def plain(origin: str) -> str:
    """Return an origin as browsers spell it: in small letters, without its scheme's own port."""
    parts = urlsplit(origin.lower())
    usual = f":{DEFAULT_PORTS[parts.scheme]}"
    return f"{parts.scheme}://{parts.netloc.removesuffix(usual)}"


def _parts(origin: str) -> tuple[str, str, int] | None:
    """Return scheme, host and port of a page's origin (RFC 6454); None if it is no web page's."""
    try:
        parts = urlsplit(origin)
        port = parts.port or DEFAULT_PORTS.get(parts.scheme)
    except ValueError:  # such as an IPv6 address without its bracket
        return None
    if not parts.hostname or port is None or parts.scheme not in DEFAULT_PORTS:
        return None
    return parts.scheme, parts.hostname, port


def known_host(host: str | None, names: Collection[str]) -> bool:
    """Return whether a request with this `Host` header means this server, by one of its `names`.

    A page of a stranger's name whose address was changed to this server's (DNS rebinding) has the
    stranger's name here. Plain addresses and localhost cannot be such names. What sends no header
    is not a browser.
    """
    if host is None or ANY in names:
        return True
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    if name in ("localhost", *names):
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
