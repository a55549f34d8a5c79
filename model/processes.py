"""Processes that work at what they ask for, on this machine."""

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from threading import Thread, current_thread, main_thread
from typing import Any, NamedTuple, Protocol

ENDING_SECONDS = 60.0  # in which a process that has hung up exits, on a busy machine too


class Line(Protocol):
    """A process's line to whoever started it, as `Connection` has it."""

    def send(self, message: Any, /) -> None:
        """Say something."""

    def recv(self) -> Any:
        """Return the next answer."""


Work = Callable[[Line], None]


class Process(Protocol):
    """A process that works, as whoever started it sees it."""

    line: Any  # to wait for

    def send(self, answer: Any) -> None:
        """Answer; a process that has ended gets nothing."""

    def receive(self) -> Any:
        """Return its next message.

        Raises: EOFError where it has ended.
        """

    def end(self) -> str:
        """Return how a process that has hung up ended, in words."""

    def stop(self) -> None:
        """End the process, if it lives."""


class Place(NamedTuple):
    """Where processes run."""

    start: Callable[[Work], Process]
    wait: Callable[[list[Any]], Iterable[Any]]  # of lines: those with a message, or hung up


class ProcessHere:
    """A process of this machine; a daemon may start none of its own."""

    def __init__(self, work: Work, daemon: bool = True) -> None:
        context = get_context("spawn")  # a fork would keep the locks of other threads
        self.line, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(work, theirs), daemon=daemon)
        with handled(signal.SIG_IGN, signal.SIGINT):  # while it imports, too
            self._process.start()
        theirs.close()  # so that its end is seen here

    def send(self, answer: Any) -> None:
        with suppress(ConnectionError):  # its end is seen with the next message
            self.line.send(answer)

    def receive(self) -> Any:
        try:
            return self.line.recv()
        except OSError as error:  # it has ended within a message
            raise EOFError from error

    def end(self) -> str:
        """Return how it ended; a negative code is a signal's."""
        self._process.join(ENDING_SECONDS)
        code = self._process.exitcode  # None where somebody else has waited for this child
        self.stop()
        return "the end of its process" + ("" if code is None else f", with code {code}")

    def stop(self) -> None:
        self.line.close()
        self._process.terminate()
        self._process.join()


@contextmanager
def handled(handler: Any, *numbers: int) -> Iterator[None]:
    """Let a handler, or SIG_IGN, take signals while the block runs; what is ignored stays so.

    Only the main thread can. Processes that are started in the block ignore what it ignores.
    """
    if current_thread() is not main_thread():
        yield
        return
    before = {one: was for one in numbers if (was := signal.getsignal(one)) != signal.SIG_IGN}
    try:
        for one in before:
            signal.signal(one, handler)
        yield
    finally:
        for one, was in before.items():
            signal.signal(one, was)


def belong_to_parent() -> None:
    """Leave Ctrl-C to the parent, which ends its processes, and end where it is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def end() -> None:
        if parent := parent_process():
            parent.join()
            os._exit(1)

    Thread(target=end, daemon=True).start()


def _work(work: Work, line: Line) -> None:
    belong_to_parent()
    work(line)


HERE = Place(ProcessHere, wait)
