"""A server in a process of its own, for the time of a benchmark or a test."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 120.0  # seconds to start: the first start of all compiles


@dataclass(frozen=True)
class Served:
    """A server that listens."""

    url: str  # of its stream
    pid: int
    launched: float  # perf_counter at its launch

    def processor_seconds(self) -> float:
        """Return the processor time that it has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def served(settings: Mapping[str, str]) -> Iterator[Served]:
    """Run `cortado serve` on a free port with `settings` (their flags' names) while the block runs.

    Raises: ValueError if it does not start.
    """
    flags = [part for name, value in settings.items() for part in (f"--{name}", value)]
    command = [sys.executable, "-m", "cortado.clients.cli", "serve", "--port", "0", *flags]
    launched = time.perf_counter()
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            line = before = ""
            while " open http" not in line:  # behind what it may say of its settings
                before, line = line, process.stdout.readline()
                if not line:
                    raise ValueError(f"expected a server to start, got {before.strip()!r}")
            page = line.split(" open ")[1].split()[0]
            url = page.replace("http", "ws", 1) + "/v1/stream"
            yield Served(url, process.pid, launched)
        finally:
            process.terminate()
            process.wait(PATIENCE)
