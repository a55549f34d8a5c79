"""Another process that is in a folder."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SCRIPT = """
import sys
from pathlib import Path
from cortado.training.lock import locked

with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_process_in(folder: Path) -> Iterator[None]:
    """Let another process lock a folder during the block."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", SCRIPT, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout
        assert other.stdout.readline() == b"locked\n"
        yield
        other.communicate()
