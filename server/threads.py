"""Calls that may hang, in threads that end with the process.

asyncio's own threads are waited for when its loop ends: a call that hangs there holds up the end.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


class NoThreadError(Exception):
    """The system has no thread left."""


def in_thread(call: Callable[[], T], name: str) -> asyncio.Future[T]:
    """Return what a call will return, or the exception that it will raise, or NoThreadError.

    It is made in a thread of that name, which goes on if the future is cancelled.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            give = partial(answer.set_result, call())
        except Exception as error:
            give = partial(answer.set_exception, error)
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(ended, give)

    def ended(give: Callable[[], None]) -> None:
        if not answer.done():
            give()

    try:
        Thread(target=run, name=name, daemon=True).start()
    except RuntimeError as error:
        answer.set_exception(NoThreadError(f"expected a thread, got none: {error}"))
    return answer
