"""What a stream may ask for."""

from typing import Any

import pytest

from cortado.model.streaming.options import StreamOptions


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"phrases": "Ada"}, "expected phrases as a list of texts, got the text 'Ada'"),
        ({"phrases": ["a"] * 101}, "expected at most 100 phrases, got 101"),
        ({"phrases": ["a" * 101]}, "expected phrases as texts of at most 100 characters, got 'aaa"),
        ({"phrases": [3]}, "expected phrases as texts of at most 100 characters, got 3"),
        ({"phrases": {"Ada"}}, "expected phrases as a list of texts, got {'Ada'}"),
        ({"phrases": None}, "expected phrases as a list of texts, got None"),
        ({"phrases": iter("a")}, "expected phrases as a list of texts, got <str_"),
        ({"alternatives": 2.5}, "expected a whole number of alternatives from 0 to 10, got 2.5"),
        ({"alternatives": "2"}, "expected a whole number of alternatives from 0 to 10, got '2'"),
        ({"alternatives": 20}, "expected a whole number of alternatives from 0 to 10, got 20"),
        ({"alternatives": -1}, "expected a whole number of alternatives from 0 to 10, got -1"),
    ],
)
def test_more_than_a_server_takes_is_refused_everywhere(
    asked: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        StreamOptions(**asked)


def test_as_much_as_a_server_takes_is_taken() -> None:
    assert len(StreamOptions(["a" * 100] * 100, alternatives=10).phrases) == 100
