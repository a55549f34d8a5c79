"""The processes that `train` starts on one machine."""

import time
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

from cortado.model.whole_file import write_whole
from cortado.tests.training.tiny import recipe
from cortado.training.learning import run


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
    run.train(recipe(tmp_path / "train.jsonl"), tmp_path, processes=2)
    assert (tmp_path / "loaded").read_text() == "[1, 2]"
