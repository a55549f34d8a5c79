"""Which pages may open a stream, and by which names the server may be addressed."""

import pytest

from cortado.server.origin import allowed, known_host

FRIENDS = ["https://friend.example"]


@pytest.mark.parametrize(
    ("origin", "scheme", "host"),
    [
        (None, "ws", "127.0.0.1:8000"),  # not a browser
        ("http://127.0.0.1:8000", "ws", "127.0.0.1:8000"),
        ("https://Speech.example", "wss", "speech.example"),
        ("https://speech.example", "wss", "speech.example:443"),
        ("https://friend.example", "wss", "speech.example"),
        ("https://friend.example/", "ws", "speech.example"),
    ],
)
def test_the_own_page_and_named_ones_are_let_in(origin: str | None, scheme: str, host: str) -> None:
    assert allowed(origin, scheme, host, FRIENDS)


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "http://127.0.0.1:9000",
        "https://127.0.0.1:8000",
        "file://127.0.0.1:8000",
        "chrome-extension://127.0.0.1:8000",
        "http://evil@127.0.0.1:9000",
        "null",
        "",
        "http://[",
        "http://127.0.0.1:99999",
        "file://",
        "http://friend.example",
        "https://friend.example.evil.example",
        "127.0.0.1:8000",
    ],
)
@pytest.mark.parametrize("host", ["127.0.0.1:8000", "", None])
def test_other_pages_are_not(origin: str, host: str | None) -> None:
    assert not allowed(origin, "ws", host, FRIENDS)


def test_a_star_lets_everybody_in() -> None:
    assert allowed("https://evil.example", "ws", "127.0.0.1:8000", ["*"])
    assert known_host("evil.example", ["*"])


@pytest.mark.parametrize(
    "host", [None, "localhost", "127.0.0.1:8000", "[::1]:80", "192.0.2.7", "Speech.Example:443"]
)
def test_addresses_and_own_names_are_known_hosts(host: str | None) -> None:
    assert known_host(host, ["speech.example"])


@pytest.mark.parametrize(
    "host", ["evil.example:8000", "", "[", "speech.example.evil.example", "localhost.evil.example"]
)
def test_a_name_that_was_rebound_to_this_address_is_unknown(host: str) -> None:
    assert not known_host(host, ["speech.example"])
