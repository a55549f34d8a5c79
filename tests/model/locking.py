"""Another process that holds a lock."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SCRIPT = """
import sys
from pathlib import Path
from cortado.model.lock import locked

with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_process_holding(path: Path) -> Iterator[None]:
    """Let another process lock a file during the block."""
    path.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", SCRIPT, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout
        assert other.stdout.readline() == b"locked\n"
        yield
        other.communicate()
