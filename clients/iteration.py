"""What an asynchronous iterator gives, by `async for` or, without an event loop, by `for`."""

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")


class Results(Generic[T]):
    """The items of the iterator that `begin` returns, once, by `for` or by `async for`."""

    def __init__(self, begin: Callable[[], AsyncIterator[T]]) -> None:
        self._begin = begin

    def __aiter__(self) -> AsyncIterator[T]:
        return _InTask(self._begin)

    def __iter__(self) -> Iterator[T]:
        return _in_thread(self._begin)


class _InTask(Generic[T]):
    """What an asynchronous iterator gives, which runs in a task of its own.

    Whoever leaves a loop half way leaves an iterator behind. Of generators within generators an
    event loop that ends closes all at once, which fails; a cancelled task unwinds them in order.
    """

    def __init__(self, begin: Callable[[], AsyncIterator[T]]) -> None:
        self._begin = begin
        self._task: asyncio.Task[None] | None = None
        # Unbounded: a task that waits for room is outside its generators and cannot unwind them.
        self._found = asyncio.Queue[tuple[T] | BaseException]()

    def __aiter__(self) -> "_InTask[T]":
        return self

    async def __anext__(self) -> T:
        if self._task is None and self._found.empty():
            self._task = asyncio.create_task(_pass_on(self._begin, self._found.put_nowait))
        item = await self._found.get()
        if isinstance(item, tuple):
            return item[0]
        self._found.put_nowait(item)  # for whoever else asks
        raise item

    async def aclose(self) -> None:
        """End what still runs."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._found.put_nowait(StopAsyncIteration())

    def __del__(self) -> None:
        if self._task is not None:
            with suppress(RuntimeError):  # the loop has ended, and the task with it
                self._task.get_loop().call_soon_threadsafe(self._task.cancel)


async def _pass_on(
    begin: Callable[[], AsyncIterator[T]], put: Callable[[tuple[T] | BaseException], None]
) -> None:
    """Put what an iterator gives, each in a tuple, and then what ended it."""
    try:
        async for one in begin():
            put((one,))
        put(StopAsyncIteration())
    except BaseException as error:
        put(error)


def _in_thread(begin: Callable[[], AsyncIterator[T]]) -> Iterator[T]:
    """Yield what an asynchronous iterator gives, in an event loop and a thread of its own.

    Audio is thus sent and characters are received while the caller does something else.
    """
    passed: queue.SimpleQueue[tuple[T] | BaseException] = queue.SimpleQueue()
    runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)  # the caller keeps its own
    loop = runner.get_loop()
    task = loop.create_task(_pass_on(begin, passed.put))

    def work() -> None:
        with runner:
            runner.run(asyncio.wait([task]))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while not isinstance(item := passed.get(), StopAsyncIteration):
            if isinstance(item, BaseException):
                raise item
            yield item[0]
    finally:
        with suppress(RuntimeError):  # the loop has ended already
            loop.call_soon_threadsafe(task.cancel)
        thread.join()
