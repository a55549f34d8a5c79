"""The progress bar: quiet where nobody watches, and right when the work changes its kind."""

import os
import pty
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
WORK = """
import logging
from cortado.clients.progress import progress_bar
with progress_bar() as report:
    report("speaking", 3, 3)
    logging.info("a log line")
    report("training", 1, 40)
    report("training", 40, 40)
"""


def run(stderr: int) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", WORK],
        cwd=ROOT,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
        stdout=subprocess.PIPE,
        stderr=stderr,
        check=True,
        timeout=60,
    )


def test_without_a_terminal_there_are_log_lines_and_no_bar() -> None:
    result = run(subprocess.PIPE)
    assert result.stdout == b""
    [line] = result.stderr.decode().splitlines()
    assert line.endswith(" a log line")


def test_in_a_terminal_the_bar_follows_the_work_and_the_log_stands_above_it() -> None:
    ours, theirs = pty.openpty()
    assert run(theirs).stdout == b""
    os.close(theirs)
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    assert "a log line" in shown
    assert shown.rindex("40/40") > shown.index("a log line")
    assert "training" in shown[shown.rindex("40/40") :]
