"""Which pages may open a stream."""

import pytest

from cortado.server.origin import allowed


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        (None, "127.0.0.1:8000"),  # not a browser
        ("http://127.0.0.1:8000", "127.0.0.1:8000"),
        ("https://Speech.example", "speech.example"),
        ("https://friend.example", "speech.example"),
        ("https://friend.example/", "speech.example"),
    ],
)
def test_the_own_page_and_named_ones_are_let_in(origin: str | None, host: str) -> None:
    assert allowed(origin, host, ["https://friend.example"])


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "http://127.0.0.1:9000",
        "null",
        "",
        "http://[",
        "file://",
        "http://friend.example",
        "https://friend.example.evil.example",
        "127.0.0.1:8000",
    ],
)
@pytest.mark.parametrize("host", ["127.0.0.1:8000", "", None])
def test_other_pages_are_not(origin: str, host: str | None) -> None:
    assert not allowed(origin, host, ["https://friend.example"])


def test_a_star_lets_everybody_in() -> None:
    assert allowed("https://evil.example", "127.0.0.1:8000", ["*"])
