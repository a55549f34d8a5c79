"""Work that several processes share."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def parallel_map(
    function: Callable[[Item], Result], items: Sequence[Item], workers: int, chunk: int
) -> Iterator[Result]:
    """Yield the function's results in the order of the items.

    Args:
        function: of a module, so that another process can import it.
        items: what it is called with.
        workers: processes; up to 1 for this one alone.
        chunk: items that a process takes at once.

    Raises:
        OSError: a process died, as one does where memory runs out.
    """
    if workers <= 1:
        yield from map(function, items)
        return
    # An executor tells of workers that cannot start, or die; a Pool would wait for them for ever.
    with ProcessPoolExecutor(workers, get_context("spawn"), _end_with_parent) as pool:
        try:
            yield from pool.map(function, items, chunksize=chunk)
        except BrokenProcessPool as error:
            raise OSError(f"expected {workers} processes to work, got the end of one") from error


def _end_with_parent() -> None:
    """Let this process end when its parent is gone: it would wait for work for ever."""

    def end() -> None:
        if parent := parent_process():
            parent.join()
            os._exit(1)

    threading.Thread(target=end, daemon=True).start()
