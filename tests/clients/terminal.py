"""A program in a terminal of its own, which is read and typed into."""

import os
import pty
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress


class Terminal:
    """A terminal in which a program runs."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], cwd: str) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            command,
            env=environment,
            cwd=cwd,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            preexec_fn=_hangs_up,
        )
        os.close(theirs)
        self.text = ""  # that was written
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._ours, text.encode())

    def wait_for(self, text: str, seconds: float = 120) -> None:
        """Wait until a text was written.

        Raises: TimeoutError with what was written instead.
        """
        until = time.monotonic() + seconds
        ended = False
        while text not in self.text:
            if time.monotonic() > until or ended:
                raise TimeoutError(f"expected {text!r}, got {self.text!r}")
            time.sleep(0.05)
            ended = not self._reader.is_alive()  # so what it read last is looked at

    def _read(self) -> None:
        with suppress(OSError):  # of a terminal whose program has ended
            while data := os.read(self._ours, 4096):
                self.text += data.decode(errors="replace")


def _hangs_up() -> None:
    """Let the terminal's end reach the program, also where nohup runs the tests."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@contextmanager
def in_terminal(
    command: Sequence[str], environment: Mapping[str, str], cwd: str
) -> Iterator[Terminal]:
    """Run a program in a terminal until the block is left."""
    terminal = Terminal(command, {**environment, "TERM": "xterm-256color"}, cwd)
    try:
        yield terminal
    finally:
        terminal.process.kill()
        terminal.process.wait()
