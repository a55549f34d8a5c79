"""The processes that `train` starts on one machine."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from cortado.model.lock import LOCK
from cortado.model.whole_file import write_whole
from cortado.tests.model.locking import another_process_holding
from cortado.tests.training.tiny import corpus, recipe
from cortado.training.learning import run
from cortado.training.learning.recipe import Corpus, read
from cortado.training.learning.trainer import Trainer


def load_beside(rank: int, processes: int, rendezvous: str, *given: Any) -> None:
    """Load batches by another process, as one beside a GPU does; the first waits for the second."""
    loaded = given[1] / "loaded"
    if rank:
        found = [int(one) for one in DataLoader([1, 2], batch_size=None, num_workers=1)]  # type: ignore[arg-type]
        write_whole(loaded, str(found))
    for _ in range(900):
        if loaded.exists():
            return
        time.sleep(0.1)


def test_every_process_may_have_loaders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_process", load_beside)
    monkeypatch.setattr(run, "prepare", lambda *_: None)
    run.train(recipe(corpus(tmp_path)), tmp_path / "run", processes=2)
    assert (tmp_path / "run" / "loaded").read_text() == "[1, 2]"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("validation", (Path("nothing"),)),
        ("start", Path("nothing")),
        ("text", Path("nothing")),
        ("text", Path("capitals")),
        ("corpora", (Corpus(Path("nothing"), 1.0),)),
    ],
)
def test_what_is_needed_late_is_missed_before_anything_is_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, value: Any
) -> None:
    monkeypatch.setattr(run, "prepare", lambda *_: pytest.fail("it was prepared"))
    monkeypatch.chdir(tmp_path)
    Path("capitals").write_text("a nothing\nLoud\n")
    with pytest.raises((ValueError, OSError), match=r"nothing|capitals:2: expected characters"):
        run.train(replace(recipe(corpus(tmp_path)), **{key: value}), tmp_path / "run")


def test_a_recording_to_validate_with_is_missed_before_anything_is_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "prepare", lambda *_: pytest.fail("it was prepared"))
    wanted = replace(recipe(corpus(tmp_path)), validation=(corpus(tmp_path, name="dev"),))
    (tmp_path / "dev-0.wav").unlink()
    with pytest.raises(FileNotFoundError, match=r"dev-0\.wav"):
        run.train(wanted, tmp_path / "run")


def test_a_run_is_not_trained_twice_at_once(tmp_path: Path) -> None:
    wanted, output = recipe(corpus(tmp_path)), tmp_path / "run"
    with (
        another_process_holding(output / LOCK),
        pytest.raises(ValueError, match=r"no other process in .*run, got one"),
    ):
        run.train(wanted, output)
    assert run.train(wanted, output).is_dir()


def test_a_batch_without_room_on_a_gpu_is_told_on_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(Trainer, "run", full)
    with pytest.raises(OSError, match=r"room for batches of 6 s, got CUDA out of memory.*smaller"):
        run.train(recipe(corpus(tmp_path)), tmp_path / "run")


@pytest.mark.parametrize(
    ("most", "chosen"), [(1, [0]), (2, [0, 3]), (4, [0, 1, 3, 4]), (9, range(6))]
)
def test_validation_hears_the_whole_manifest(
    tmp_path: Path, most: int, chosen: Sequence[int]
) -> None:
    wanted = replace(recipe(corpus(tmp_path)), validation_utterances=most)
    [found] = run.validation_sets(wanted).values()
    assert [one.id for one in found] == [f"train-{k}" for k in chosen]


RECIPE = """
name = "tiny"
validation = []
corpora = [{ manifest = "train.jsonl", weight = 1 }]
batch_seconds = 6
stages = [{ name = "all", steps = 2, attention = 1 }]
model = { encoder = { channels = 2, width = 8, layers = 1 } }
"""
# `cortado train`, whose second process sends a signal while it imports: to all, as a terminal does,
# or to itself.
SENDS = """
import os, signal, sys, time
if __name__ == "__mp_main__":
    time.sleep(1)  # the first goes on to where it waits
    os.kill({to}, signal.{sent})
    time.sleep(1)
else:
    from cortado.clients.cli import main
    sys.exit(main())
"""


@pytest.mark.parametrize(
    ("prepared", "to", "sent", "code", "said"),
    [
        (False, "0", "SIGINT", 130, ""),
        (True, "0", "SIGINT", 130, ""),
        (True, "os.getpid()", "SIGKILL", 2, "got the end of its process, with code -9\n"),
    ],
)
def test_a_run_ends_whatever_befalls_it_while_a_process_imports(
    prepared: bool, to: str, sent: str, code: int, said: str, tmp_path: Path
) -> None:
    corpus(tmp_path)
    (tmp_path / "tiny.toml").write_text(RECIPE)
    if prepared:  # else it is one of the processes that prepare
        plan = read(tmp_path / "tiny.toml")
        run.prepare(plan.corpora[0], tmp_path / "runs" / "tiny", 1, plan)
    (tmp_path / "sends.py").write_text(SENDS.format(to=to, sent=sent))
    (tmp_path / "rest").mkdir()
    command = [sys.executable, "sends.py", "train", str(tmp_path / "tiny.toml"), "-p", "2"]
    log, environment = tmp_path / "log", {**os.environ, "TMPDIR": str(tmp_path / "rest")}
    with log.open("w") as written:
        process = subprocess.Popen(
            command, cwd=tmp_path, env=environment, stderr=written, start_new_session=True
        )
    try:
        assert process.wait(300) == code
    finally:
        with suppress(ProcessLookupError):  # nobody is left
            os.killpg(process.pid, signal.SIGKILL)
    assert "Traceback" not in log.read_text()
    assert log.read_text().endswith(said)
    assert not list((tmp_path / "rest").glob("*/*"))
