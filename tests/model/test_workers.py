"""Files to text in several processes: as in one, each once, whatever happens to a process."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import Pipe
from pathlib import Path
from typing import Any, NoReturn

import psutil
import pytest

from cortado.model import checkpoint
from cortado.model.files import FileTranscript, transcripts
from cortado.model.loading import Loading
from cortado.model.search.phrases import PhrasesError
from cortado.model.search.settings import Beam
from cortado.model.streaming.options import StreamOptions
from cortado.model.workers import _work, transcripts_by
from cortado.tests.model.test_files import wav
from cortado.tests.model.untrained import untrained
from cortado.tests.training.tiny import MODEL


@pytest.fixture(scope="module")
def loading(tmp_path_factory: pytest.TempPathFactory) -> Loading:
    return saved_model(tmp_path_factory.mktemp("checkpoint"))


def saved_model(folder: Path) -> Loading:
    """Save a tiny model; return what loads it."""
    checkpoint.save(untrained(MODEL).recognizer, folder)
    return Loading(folder, beam=Beam(width=1))


def here(loading: Loading, files: list[Path]) -> dict[int, FileTranscript]:
    recognizer_for, vad = loading.load()
    return {one.number: one for one in transcripts(recognizer_for, files, vad)}


@contextmanager
def killing(path: Path) -> Iterator[list[int]]:
    """Kill whichever process opens a file; yield what was killed."""
    killed, over = list[int](), threading.Event()

    def look() -> None:
        while not over.wait(0.05):
            for child in psutil.Process().children(recursive=True):
                try:
                    if any(one.path == str(path) for one in child.open_files()):
                        child.kill()
                        killed.append(child.pid)
                        # psutil's wait would take the exit code from the parent.
                        while child.status() != psutil.STATUS_ZOMBIE:
                            time.sleep(0.01)
                except psutil.Error:  # it has ended meanwhile
                    continue

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def test_processes_give_each_file_once_as_one_process_does(
    loading: Loading, tmp_path: Path
) -> None:
    files = [wav(tmp_path / f"{k}.wav", k, 0.2 + 0.3 * (k % 4)) for k in range(9)]
    files[4].write_bytes(files[4].read_bytes()[:5000])  # cut
    reports = list[tuple[int, int]]()
    found = list(transcripts_by(2, loading, files, lambda *far: reports.append(far)))
    expected = here(loading, files)
    assert sorted(one.number for one in found) == list(range(9))
    for one in found:
        assert one[:3] == expected[one.number][:3]
        assert str(one.error) == str(expected[one.number].error)
    assert [one.number for one in found if one.error] == [4]
    assert reports[-1] == (9, sum(path.stat().st_size for path in files))


def test_a_file_that_ends_its_process_is_given_up_and_harms_no_other(
    loading: Loading, tmp_path: Path
) -> None:
    files = [wav(tmp_path / f"{k}.wav", k, 0.5) for k in range(5)]
    poison = wav(tmp_path / "poison.wav", 9, 600.0)  # so long that whoever reads it is seen
    files.insert(1, poison)
    with killing(poison) as killed:
        found = {one.number: one for one in transcripts_by(2, loading, files)}
    assert len(killed) == 2  # with others beside it, and alone
    expected = here(loading, [path for path in files if path != poison])
    good = [found.pop(number) for number in (0, 2, 3, 4, 5)]
    assert [one.transcript for one in good] == [expected[k].transcript for k in range(5)]
    assert [one.error for one in good] == [None] * 5
    [(number, bad)] = found.items()
    assert number == 1
    wanted = f"{poison}: expected sound that can be transcribed, got the end of its process"
    assert str(bad.error) == f"{wanted}, with code {-signal.SIGKILL}"


@contextmanager
def without_exit_codes() -> Iterator[None]:
    """Let nobody learn how a child ended, as where a program takes its children's codes itself."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_file_is_given_up_too_where_the_exit_code_of_its_process_is_taken_by_others(
    loading: Loading, tmp_path: Path
) -> None:
    files = [wav(tmp_path / "a.wav", 1, 0.5), wav(tmp_path / "poison.wav", 9, 600.0)]
    with without_exit_codes(), killing(files[1]):
        good, bad = sorted(transcripts_by(2, loading, files))
    assert good.error is None
    assert str(bad.error).endswith("got the end of its process")


class Ending(Loading):
    """What ends the process that loads it."""

    def load(self) -> NoReturn:
        os._exit(3)


def test_processes_that_end_before_they_have_a_file_are_one_error(
    loading: Loading, tmp_path: Path
) -> None:
    files, ending = [wav(tmp_path / "a.wav", 1, 0.5)], Ending(*loading)
    expected = "expected a process that transcribes, got the end of its process"
    with pytest.raises(OSError, match=f"^{expected}, with code 3$"):
        list(transcripts_by(2, ending, files))
    with without_exit_codes(), pytest.raises(OSError, match=f"^{expected}$"):
        list(transcripts_by(2, ending, files))


def test_a_process_whose_question_is_not_read_any_more_ends_without_a_word(
    loading: Loading,
) -> None:
    parent, child = Pipe()

    class Line:
        """Of a parent that ends with a question before it, as by `| head`."""

        def send(self, message: object) -> None:
            child.send(message)
            parent.close()

        def recv(self) -> Any:
            return child.recv()

    _work(loading, StreamOptions(), Line(), streams=1)


def test_what_cannot_be_loaded_is_one_error(loading: Loading, tmp_path: Path) -> None:
    file = wav(tmp_path / "a.wav", 1, 0.3)
    with pytest.raises(ValueError, match="expected a checkpoint"):
        list(transcripts_by(2, loading._replace(checkpoint=tmp_path), [file, file]))
    with pytest.raises(PhrasesError):
        list(transcripts_by(2, loading, [file, file], options=StreamOptions(["Ada"])))
    assert [one for one in psutil.Process().children() if "spawn_main" in "".join(_line(one))] == []


def _line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_no_file_needs_no_process(loading: Loading) -> None:
    before = len(os.listdir("/proc/self/fd"))
    assert list(transcripts_by(4, loading, [])) == []
    assert len(os.listdir("/proc/self/fd")) == before
