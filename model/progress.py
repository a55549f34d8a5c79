"""How far a long work has come, for whoever watches it: a bar in a terminal, or nobody."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
Progress = Callable[[str, int, int], None]  # what is done, how many, of how many
Count = Callable[[int, int], None]  # the same of one work: how many, of how many


def unwatched(*_: object) -> None:
    """Tell nobody: the `Progress` and the `Count` of a work that is not watched."""


def counted(items: Iterable[Item], total: int, count: Count) -> Iterator[Item]:
    """Yield items, and tell of each when the next is asked for: then it is done."""
    for done, item in enumerate(items, 1):
        yield item
        count(done, total)
