"""The progress bar: quiet where nobody watches, and right when the work changes its kind."""

import subprocess
import sys

from cortado.tests.clients.serving import ENVIRONMENT, ROOT
from cortado.tests.clients.terminal import in_terminal

WORK = """
import logging
from cortado.clients.progress import progress_bar
with progress_bar() as report:
    report("speaking", 3, 3)
    logging.info("a log line")
    report("training", 1, 40)
    report("training", 40, 40)
"""
COMMAND = (sys.executable, "-c", WORK)


def test_without_a_terminal_there_are_log_lines_and_no_bar() -> None:
    result = subprocess.run(COMMAND, cwd=ROOT, capture_output=True, check=True, timeout=60)
    assert result.stdout == b""
    [line] = result.stderr.decode().splitlines()
    assert line.endswith(" a log line")


def test_in_a_terminal_the_bar_follows_the_work_and_the_log_stands_above_it() -> None:
    with in_terminal(COMMAND, ENVIRONMENT | {"COLUMNS": "100"}, str(ROOT)) as terminal:
        assert terminal.process.wait(60) == 0
        terminal.wait_for("40/40")
    shown = terminal.text
    assert "a log line" in shown
    assert shown.rindex("40/40") > shown.index("a log line")
    assert "training" in shown[shown.rindex("40/40") :]
