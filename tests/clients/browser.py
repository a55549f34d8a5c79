"""What every browser of the tests has: a process of its own, and pages that are waited for."""

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Process = subprocess.Popen[bytes]


class Watched:
    """A page that can be asked for the value of a JavaScript expression."""

    messages: list[str]  # of the page's console, and exceptions

    def evaluate(self, expression: str) -> Any:
        """Return the JSON value of a JavaScript expression; a promise is waited for."""
        raise NotImplementedError

    def wait_for(self, expression: str, seconds: float = 60) -> None:
        """Wait until a JavaScript expression is true.

        Raises:
            TimeoutError: it did not become true; with the page's text and its console.
        """
        until = time.monotonic() + seconds
        while not self.evaluate(f"Boolean({expression})"):
            if time.monotonic() > until:
                text = self.evaluate(
                    "document.body.dataset.state + ' | ' + document.body.innerText"
                )
                raise TimeoutError(f"{expression} is not true: {text} {self.messages}")
            time.sleep(0.05)

    def wait_for_state(self, state: str, seconds: float = 60) -> None:
        """Wait until the page says that it is in a state, such as listening or idle."""
        self.wait_for(f"document.body.dataset.state === {state!r}", seconds)

    def text(self, element: str) -> str:
        """Return the text of the element with that id, as it is shown."""
        return str(self.evaluate(f"document.getElementById({element!r}).innerText"))

    def transcript(self) -> str:
        """Return the text of the latest take, a line for each utterance."""
        return str(
            self.evaluate(
                """[...([...document.querySelectorAll('.take')].at(-1)?.querySelectorAll('.text')
                    ?? [])].map((each) => each.textContent.trim()).join("\\n")"""
            )
        )

    def sent(self) -> NDArray[np.float32]:
        """Return the samples that the page has sent; it was opened with ?debug=1."""
        values = self.evaluate(
            "new Blob(window.cortadoSent).arrayBuffer().then((all) => [...new Int16Array(all)])"
        )
        return np.array(values, np.float32) / np.float32(32768)

    def click(self, element: str) -> None:
        """Press the element with that id as a person does."""
        self.evaluate(f"document.getElementById({element!r}).click()")


@contextmanager
def running(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Process]:
    """Run a program that writes to `log`, until the block is left."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=out)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def begun(
    process: "subprocess.Popen[Any]", log: Path, ask: Callable[[], str | None], seconds: float = 60
) -> str:
    """Return what `ask` gives as soon as it is something.

    Raises:
        RuntimeError: the program ended before, or the time; with the end of its log.
    """
    until = time.monotonic() + seconds
    while time.monotonic() < until and process.poll() is None:
        if answer := ask():
            return answer
        time.sleep(0.05)
    raise RuntimeError(f"{process.args!r} did not start: {log.read_text()[-2000:]}")
