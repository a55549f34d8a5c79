"""Processes of a Ray cluster that this process is connected to, each with a core of its own."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, NamedTuple

import ray
from ray.exceptions import RayError

from cortado.model.processes import Place, Work

LONGEST_REASON = 200  # characters of Ray's words about an end


class _End(NamedTuple):
    """The last message: the work is done."""


class _Line:
    """The line of work in an actor, to the thread that yields its messages."""

    def __init__(self) -> None:
        self.answers, self.messages = SimpleQueue[Any](), SimpleQueue[Any]()

    def send(self, message: Any, /) -> None:
        self.messages.put(message)

    def recv(self) -> Any:
        return self.answers.get()


class _Actor:
    """What runs in the cluster: one thread works, one yields messages, one takes answers."""

    def __init__(self, folder: str) -> None:
        with suppress(OSError):  # another machine may not have it
            os.chdir(folder)  # relative paths begin there
        self._line = _Line()

    def answer(self, answer: Any) -> None:
        self._line.answers.put(answer)

    def work(self, work: Work) -> Iterator[Any]:
        with ThreadPoolExecutor(1) as thread:
            done = thread.submit(work, self._line)
            done.add_done_callback(lambda _: self._line.send(_End()))
            while not isinstance(message := self._line.messages.get(), _End):
                yield message
            done.result()  # raises what was not foreseen


class _ProcessOfCluster:
    """A process of the cluster."""

    def __init__(self, work: Work) -> None:
        actor = ray.remote(_Actor).options(num_cpus=1, max_concurrency=2)
        self._actor = actor.remote(os.getcwd())
        self.line = self._actor.work.options(num_returns="streaming").remote(work)
        self._reason = ""

    def send(self, answer: Any) -> None:
        self._actor.answer.remote(answer)

    def receive(self) -> Any:
        try:
            return ray.get(next(self.line))
        except (StopIteration, RayError) as error:
            self._reason = " ".join(str(error).split())[:LONGEST_REASON]
            raise EOFError from error

    def end(self) -> str:
        """Return how it ended, in Ray's words."""
        self.stop()
        return "the end of its process" + (f": {self._reason}" if self._reason else "")

    def stop(self) -> None:
        ray.kill(self._actor)


def _wait(lines: list[Any]) -> list[Any]:
    ready, _ = ray.wait(lines, num_returns=1)
    return list(ready)


CLUSTER = Place(_ProcessOfCluster, _wait)


def cores() -> int:
    """Return the cores of the cluster."""
    return int(ray.cluster_resources().get("CPU", 0))
