"""Who counts items tells of each when it is done, and of none that was given up."""

from collections.abc import Iterator

import pytest

from cortado.model.progress import counted


def test_an_item_is_told_of_when_it_is_done() -> None:
    seen: list[object] = []
    for item in counted("ab", 2, lambda *far: seen.append(far)):
        seen.append(item)
    assert seen == ["a", (1, 2), "b", (2, 2)]


def test_an_item_that_cannot_be_had_is_not_told_of() -> None:
    def items() -> Iterator[str]:
        yield "a"
        raise OSError

    seen: list[object] = []
    with pytest.raises(OSError):  # noqa: PT011 (there is no other)
        list(counted(items(), 2, lambda *far: seen.append(far)))
    assert seen == [(1, 2)]
