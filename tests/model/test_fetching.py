"""Files that lie elsewhere are fetched no longer than somebody waits for them."""

import io
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import cast

import soundfile

from cortado.model.files import FileTranscript, transcripts
from cortado.tests.model.untrained import noise, untrained
from cortado.tests.server.running import PATIENCE, wait_for


class Endless(io.RawIOBase):
    """A file that never ends, of a store that is slow."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    def open(self, mode: str) -> "Endless":
        assert mode == "rb"
        return self

    def read(self, size: int = -1, /) -> bytes:
        self.asked.set()
        time.sleep(0.01)
        return bytes(10)


def test_who_stops_does_not_wait_for_downloads(tmp_path: Path) -> None:
    here, recognizer = tmp_path / "here.wav", untrained()
    soundfile.write(here, noise(1, 0.1), 16_000)
    elsewhere = [Endless() for _ in range(3)]
    paths = [here, *(cast(Path, one) for one in elsewhere)]
    before = threading.active_count()
    found = transcripts(lambda _: recognizer, paths)
    results = cast(Generator[FileTranscript, None, None], found)
    assert next(results).path == here
    assert all(one.asked.wait(PATIENCE) for one in elsewhere)
    results.close()
    assert wait_for(lambda: all(one.closed for one in elsewhere))
    assert wait_for(lambda: threading.active_count() <= before)
