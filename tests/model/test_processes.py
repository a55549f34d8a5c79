"""Processes are their parent's, which alone feels Ctrl-C."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cortado.model.processes import HERE, Line

AT_IMPORT = signal.getsignal(signal.SIGINT)


def tell(line: Line) -> None:
    line.send(AT_IMPORT)


def test_a_process_does_not_feel_ctrl_c_while_it_still_imports() -> None:
    process = HERE.start(tell)
    assert process.receive() == signal.SIG_IGN
    process.stop()
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler


def test_a_process_may_be_started_by_any_thread() -> None:
    with ThreadPoolExecutor(1) as other:
        process = other.submit(HERE.start, tell).result()
    process.receive()
    process.stop()


LASTS = """
import time
from cortado.model.processes import HERE
def last(line):
    line.send("begun")
    time.sleep(600)
if __name__ == "__main__":
    print(HERE.start(last).receive(), flush=True)
    time.sleep(600)
"""


def test_a_process_ends_with_its_parent_which_was_killed(tmp_path: Path) -> None:
    (tmp_path / "lasts.py").write_text(LASTS)
    command = [sys.executable, str(tmp_path / "lasts.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        assert parent.stdout.readline() == "begun\n"
        parent.kill()
        parent.communicate(timeout=30)  # until nobody has the pipe any more
