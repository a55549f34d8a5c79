"""A real server in a process of its own, and the command line beside it."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cortado.tests.clients.browser import begun

ROOT = Path(__file__).parent.parent.parent
CORTADO = (sys.executable, "-m", "cortado.clients.cli")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
NAMED = {"CORTADO_ALLOWED_HOSTS": "cortado.test"}  # by a name as well, where http is not secure
START_SECONDS = 300  # on a machine that has other work; a server that fails is noticed at once


@dataclass(frozen=True)
class Served:
    """A server that runs."""

    process: "subprocess.Popen[str]"
    page: str  # http://127.0.0.1:PORT

    @property
    def stream(self) -> str:
        """The address of its stream."""
        return self.page.replace("http://", "ws://") + "/v1/stream"

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.page.rpartition(":")[2])

    def stop(self) -> None:
        """Stop it as Ctrl-C does, and wait for its end."""
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(60)


@contextmanager
def serving(
    checkpoint: Path, log: Path, *flags: str, start: Sequence[str] = CORTADO
) -> Iterator[Served]:
    """Run `cortado serve` with a checkpoint, on any free port unless `flags` name one."""
    command = [*start, "serve", "--port", "0", "--store", "memory", "--headroom", "1"]
    command += ["--checkpoint", os.fspath(checkpoint), *flags]
    with log.open("w") as out:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=ENVIRONMENT | NAMED,
            stdout=out,
            stderr=subprocess.STDOUT,
            text=True,
        )
    try:
        yield Served(process, begun(process, log, lambda: _address(log), START_SECONDS))
    finally:
        Served(process, "").stop()


def _address(log: Path) -> str | None:
    found = re.search(r"http://\S+", log.read_text())
    return found and found[0]


def transcribe(checkpoint: Path, *files: Path) -> list[dict[str, Any]]:
    """Return what `cortado transcribe --json` says of files."""
    command = [*CORTADO, "transcribe", "--json", "--checkpoint", str(checkpoint), *map(str, files)]
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
