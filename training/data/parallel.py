"""Work that several processes share."""

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import TypeVar

from cortado.model.processes import belong_to_parent, handled

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
    with ProcessPoolExecutor(workers, get_context("spawn"), belong_to_parent) as pool:
        with handled(signal.SIG_IGN, signal.SIGINT):  # while they import, too
            results = pool.map(function, items, chunksize=chunk)
        try:
            yield from results
        except BrokenProcessPool as error:
            raise OSError(f"expected {workers} processes to work, got the end of one") from error
